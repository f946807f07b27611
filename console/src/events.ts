// Events of chats, from the list and the newest pages: nothing is stored or pushed for them. As `annals tail` of the program.
import { isToolUIPart, getToolName } from 'ai';
import { type Api, type ListedChat, type Message, type Page, ofChat } from './api';
import { nameOf, platformOf, textOf } from './names';

export type Kind = 'arrived' | 'edited' | 'answered' | 'waiting' | 'delivered' | 'notDelivered' | 'failed' | 'takenOver' | 'handedBack';
export interface Event {
  at: number;
  kind: Kind;
  chat: string;
  title: string;
  who: string;
  messageId: string;
  text: string;
}

/** Number of chats of a page of the list, of such pages that a poll reads at most, and of messages of a page. */
const LISTED = 50;
const MOST_LISTS = 20;
const PAGE = 50;
const LARGEST_PAGE = 200;
/** Number of pages that are read at a time at the start. */
const AT_ONCE = 6;
const LONGEST_TEXT = 200;

interface Chats { chats: ListedChat[]; before: string | null }

interface Known {
  /** The entry of the list, as JSON. */
  entry: string;
  isAtRest: boolean;
  /** Messages of the newest pages, by the kinds of their events. */
  seen: Map<string, Set<Kind>>;
  /** True if these pages were the whole history. */
  isWhole: boolean;
  /** True if a reply may be on its way to the platform. */
  isSending: boolean;
}

/** What is known of the chats: of one, or of all. A poll that fails loses nothing and repeats nothing. */
export class Feed {
  private readonly known = new Map<string, Known>();
  private hasBegun = false;
  /** In a chat that was not seen before, messages since then are new. */
  private newSince = -Infinity;
  /** When somebody spoke last in any chat, as the last poll saw it. */
  private newest = Infinity;
  private events: Event[] = [];

  constructor(private readonly only: string | null) {}

  /** Returns the events since the last call, oldest first: at first, those of the newest pages. */
  take(): Event[] {
    const events = this.events.sort((a, b) => a.at - b.at);
    this.events = [];
    return events;
  }

  async poll(api: Api, signal: AbortSignal): Promise<void> {
    const now = Date.now();
    const { chats, before } = this.only
      ? { chats: [await api.get<ListedChat>(ofChat(this.only), signal)], before: null }
      : await this.list(api, signal);
    const newest = chats[0]?.lastInteractionAt ?? 0;
    const listed = new Set(chats.map(({ chatKey }) => chatKey));
    for (const [key, { isSending, isAtRest }] of this.known) {
      if (listed.has(key) || (!isSending && isAtRest)) continue;
      try {
        chats.push(await api.get<ListedChat>(ofChat(key), signal));
      } catch (error) {
        if ((error as { status?: number }).status !== 404) throw error;
        this.known.delete(key);
      }
    }
    const changed = chats.filter(chat => {
      const known = this.known.get(chat.chatKey);
      return !known || known.isSending || known.entry !== JSON.stringify(chat);
    });
    for (let at = 0; at < changed.length; at += AT_ONCE) {
      const some = changed.slice(at, at + AT_ONCE);
      const pages = await Promise.all(some.map(chat => this.read(api, chat.chatKey, signal)));
      some.forEach((chat, at) => this.compare(chat, pages[at] as Page));
    }
    if (!this.hasBegun && before !== null) this.newSince = now;
    this.hasBegun = true;
    this.newest = newest;
  }

  /** Reads the list, back to where the last poll saw it begin: that may be long ago, since a page that is not looked at does not poll. */
  private async list(api: Api, signal: AbortSignal): Promise<Chats> {
    let { chats, before } = await api.get<Chats>(`/v1/chats?limit=${LISTED}`, signal);
    for (let lists = 1; lists < MOST_LISTS && before !== null && (chats.at(-1)?.lastInteractionAt ?? 0) > this.newest; lists++) {
      const further: Chats = await api.get<Chats>(`/v1/chats?limit=${LISTED}&before=${before}`, signal);
      chats = [...chats, ...further.chats];
      before = further.before;
    }
    return { chats, before };
  }

  /** Reads the newest messages, back to a known one, or to the first. */
  private async read(api: Api, key: string, signal: AbortSignal): Promise<Page> {
    const known = this.known.get(key);
    const isReached = (message: Message) => (known ? known.seen.has(message.id) : !this.hasBegun || lastTime(message) < this.newSince);
    let page: Page = await api.get(`${ofChat(key, 'messages')}?limit=${PAGE}`, signal);
    while (page.before !== null && !page.messages.some(isReached)) {
      const earlier: Page = await api.get(`${ofChat(key, 'messages')}?limit=${LARGEST_PAGE}&before=${page.before}`, signal);
      page = { ...earlier, messages: [...earlier.messages, ...page.messages] };
    }
    return page;
  }

  private compare(chat: ListedChat, { messages, before }: Page): void {
    const known = this.known.get(chat.chatKey);
    const { title } = nameOf(chat.chatKey, chat);
    const isAtRest = chat.pendingTurn === null;
    const firstKnown = known && !known.isWhole ? Math.max(0, messages.findIndex(({ id }) => known.seen.has(id))) : 0;
    const lastReply = messages.findLastIndex(({ role }) => role === 'assistant');
    const seen = new Map<string, Set<Kind>>();
    let isSending = false;
    messages.forEach((message, at) => {
      const had = known?.seen.get(message.id);
      // A run ends when its reply is delivered, and the next begins after it. The entry is older than the messages, so it tells
      // that of replies which were known before.
      const isSent = at !== lastReply || (isAtRest && had !== undefined) || (!this.hasBegun && (isAtRest || at + 1 < messages.length));
      const isOld = at < firstKnown || (!known && lastTime(message) < this.newSince);
      const kinds = new Set(had);
      for (const [kind, when, text] of eventsOf(message)) {
        if (kind === 'delivered' && !isSent) isSending = true;
        else if (!kinds.has(kind)) {
          kinds.add(kind);
          const who = message.metadata?.sentBy ?? message.metadata?.senderName ?? message.metadata?.userId ?? '';
          // The time of a delivery before the start is not known.
          if (!isOld && (this.hasBegun || kind !== 'delivered')) this.events.push({ at: when, kind, chat: chat.chatKey, title, who, messageId: message.id, text });
        }
      }
      seen.set(message.id, kinds);
    });
    this.known.set(chat.chatKey, { entry: JSON.stringify(chat), isAtRest, seen, isWhole: before === null, isSending });
  }
}

/** Returns the time at which a message was said or stored, whichever is later. */
const lastTime = ({ metadata }: Message): number => Math.max(metadata?.ts ?? 0, metadata?.sentAt ?? 0);

/** Returns the kinds of the events of a message, with their times and texts. A reply to a platform that has not failed counts as delivered now. */
function eventsOf(message: Message): [Kind, number, string][] {
  const meta = message.metadata;
  // The reply that sends an operator's message tells of it.
  if (!meta || meta.kind === 'summary' || meta.dispatch) return [];
  const text = shortened(message);
  if (meta.takeover) return [[meta.takeover === 'begun' ? 'takenOver' : 'handedBack', meta.ts, text]];
  if (message.role === 'user') return [[meta.kind === 'revision' ? 'edited' : 'arrived', meta.ts, text]];
  const at = meta.sentAt ?? meta.ts;
  if (meta.kind === 'notice') {
    const isFailure = meta.cause !== undefined || meta.notice === 'noAnswer' || meta.notice === 'notCompacted';
    return [isFailure ? ['failed', at, meta.cause ?? text] : ['answered', at, text]];
  }
  const open = message.parts.filter(part => isToolUIPart(part) && part.state === 'approval-requested').map(part => getToolName(part as never));
  const first: [Kind, number, string] = open.length > 0 ? ['waiting', at, open.join(', ')] : ['answered', at, text];
  if (meta.deliveryFailure) return [first, ['notDelivered', meta.deliveryFailure.at, meta.deliveryFailure.reason]];
  return platformOf(meta.chatKey) ? [first, ['delivered', Date.now(), '']] : [first];
}

function shortened(message: Message): string {
  const words = textOf(message).split(/\s+/).filter(Boolean).join(' ');
  if (words !== '') return words.length > LONGEST_TEXT ? `${words.slice(0, LONGEST_TEXT)}…` : words;
  return message.parts
    .flatMap(part => (part.type === 'file' ? [`[${part.filename ?? part.mediaType}]`] : isToolUIPart(part) ? [`[${getToolName(part)}]`] : []))
    .join(' ');
}
