// Details of a chat: the current context and its reasons, the archive, and the memory.
import type { ReactNode } from 'react';
import { Tab, TabList, TabPanel, Tabs } from 'react-aria-components';
import type { Context, ListedChat, Message } from './api';
import { ContextPanel } from './context';
import { MemoryPanel } from './memory';
import { type Route, type View, go, href } from './route';
import { SegmentsPanel } from './segments';
import { texts } from './text';
import { Icon, Loading } from './widgets';

interface Props {
  route: Route & { at: 'chat' };
  context: Context | null;
  listed: ListedChat | undefined;
  messages: Message[];
  actions: ReactNode;
}

const TABS: readonly (readonly [View, string])[] = [['context', texts.context], ['segments', texts.archive], ['memory', texts.memory]];

export function Details({ route, context, listed, messages, actions }: Props) {
  const { chat, view } = route;
  return (
    <section className="details" aria-label={texts.details}>
      <header className="bar medium">
        <a className="button icon" href={href({ at: 'chat', chat, view: 'history' })} aria-label={texts.backToChat}>
          <Icon name="back" />
        </a>
        <h1>{texts.details}</h1>
      </header>
      <div className="tight">{actions}</div>
      <Tabs selectedKey={view === 'history' ? 'context' : view} onSelectionChange={to => go({ at: 'chat', chat, view: to as View })}>
        <TabList aria-label={texts.details} className="tabs">
          {TABS.map(([id, title]) => (
            <Tab key={id} id={id} className="tab">
              {title}
            </Tab>
          ))}
        </TabList>
        <TabPanel id="context" className="panel">
          {context ? <ContextPanel context={context} listed={listed} messages={messages} /> : <Loading what={texts.loadingContext} />}
        </TabPanel>
        <TabPanel id="segments" className="panel">
          <SegmentsPanel chat={chat} open={route.segment} />
        </TabPanel>
        <TabPanel id="memory" className="panel">
          <MemoryPanel key={JSON.stringify(context?.memoryOf ?? null)} chat={chat} owner={context?.memoryOf ?? null} isKnown={context !== null} />
        </TabPanel>
      </Tabs>
    </section>
  );
}
