// The whole chat as a file: as the API gives it, or to read.
import { useState } from 'react';
import { Dialog, DialogTrigger, Heading, Modal, ModalOverlay } from 'react-aria-components';
import { getToolName, isToolUIPart } from 'ai';
import { type Message, Problem, ofChat } from './api';
import { moment, textOf } from './names';
import { useSession } from './session';
import { texts } from './text';
import { Button, Loading, Trouble } from './widgets';

export function Export({ chat, title }: { chat: string; title: string }) {
  const { api, tell } = useSession();
  const [isLoading, setLoading] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const save = async (ending: 'jsonl' | 'md', close: () => void) => {
    setLoading(true);
    setProblem(null);
    try {
      const lines = await api.rawLines(ofChat(chat, 'messages'));
      download(`${title}.${ending}`, ending === 'jsonl' ? lines : new Blob([markdownOf(chat, title, await lines.text())], { type: 'text/markdown' }));
      tell(texts.exported);
      close();
    } catch (error) {
      setProblem(Problem.from(error));
    } finally {
      setLoading(false);
    }
  };
  return (
    <DialogTrigger onOpenChange={() => setProblem(null)}>
      <Button>{texts.export}</Button>
      <ModalOverlay className="overlay" isDismissable>
        <Modal className="modal">
          <Dialog>
            {({ close }) => (
              <>
                <Heading slot="title">{texts.exportTitle}</Heading>
                <p>{texts.exportWhat}</p>
                {problem && <Trouble problem={problem} />}
                {isLoading && <Loading what={texts.exporting} />}
                <div className="row end">
                  <Button onPress={close}>{texts.cancel}</Button>
                  <Button isDisabled={isLoading} onPress={() => void save('jsonl', close)}>
                    JSONL
                  </Button>
                  <Button look="main" isDisabled={isLoading} onPress={() => void save('md', close)}>
                    Markdown
                  </Button>
                </div>
              </>
            )}
          </Dialog>
        </Modal>
      </ModalOverlay>
    </DialogTrigger>
  );
}

/** Saves a file. */
export function download(name: string, content: Blob): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(content);
  link.download = name.replaceAll(/[^\p{L}\p{N}._ -]+/gu, '-');
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** Returns the listed messages in `lines` as one Markdown page, with every form of an edited one. */
function markdownOf(chat: string, title: string, lines: string): string {
  const messages = lines.split('\n').filter(Boolean).map((line): Message => JSON.parse(line));
  const head = `# ${title}\n\n\`${chat}\`, ${texts.exportedAt(moment(Date.now()))}`;
  return `${[head, ...messages.map(entryOf)].join('\n\n')}\n`;
}

function entryOf(message: Message): string {
  const { metadata: meta } = message;
  const at = meta ? moment(meta.sentAt ?? meta.ts) : '';
  if (meta?.kind === 'boundary') return `---\n\n*${texts.newSession(textOf(message).split(/\s/)[0] || '/new')}, ${at}*`;
  const who = (message.role === 'user' && meta?.senderName) || meta?.userId || message.role;
  const form = /@(\d+)$/.exec(message.id)?.[1];
  const about = [who, at, ...(form ? [texts.form(form)] : []), ...(meta?.kind === 'summary' ? [texts.summary] : [])].join(', ');
  return [`## ${about}`, ...message.parts.map(partOf).filter(Boolean)].join('\n\n');
}

function partOf(part: Message['parts'][number]): string {
  if (part.type === 'text') return part.text;
  if (part.type === 'file') return `*[${part.filename ?? part.mediaType}]*`;
  if (!isToolUIPart(part)) return '';
  const given = [part.input, ...('output' in part ? [part.output] : []), ...('errorText' in part ? [part.errorText] : [])];
  const blocks = given.filter(value => value !== undefined).map(value => fenced(typeof value === 'string' ? value : JSON.stringify(value, null, 2)));
  return [`**${getToolName(part)}**`, ...blocks].join('\n\n');
}

/** Returns `text` as a block of code, whatever fences it has in it. */
function fenced(text: string): string {
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${fence}\n${text}\n${fence}`;
}
