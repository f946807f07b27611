// Names of chats, times and sizes.
import type { ListedChat, Message } from './api';
import { texts } from './text';

/** Returns true for the channel of a platform, whose people write there and not here. */
export const isPlatform = (channel: string): boolean => !['', 'http', 'web', 'terminal', 'person'].includes(channel);
/** Returns the hue of a platform's badge, in degrees of OKLCH. The factor makes Telegram blue, Lark green and Discord indigo. */
export const hueOf = (channel: string): number => [...channel].reduce((hash, letter) => (hash * 26_230 + letter.charCodeAt(0)) % 65_521, 0) % 360;
/** Returns the name of a platform. */
const titled = (channel: string) => channel.charAt(0).toUpperCase() + channel.slice(1);

export interface ChatName {
  /** The channel, for the badge; `person` for a direct chat. */
  channel: string;
  channelName: string;
  title: string;
  /** Distinguishes it from others with the same title. */
  hint: string;
}

const unescaped = (part: string) => part.replaceAll('%3A', ':').replaceAll('%25', '%');
/** Returns an id as a part of a ChatKey. */
export const asPart = (id: string) => id.replaceAll('%', '%25').replaceAll(':', '%3A');

/** Returns the name of a chat, as far as its ChatKey and the list tell. */
export function nameOf(key: string, listed?: ListedChat): ChatName {
  const [channel = '', kind, ...rest] = key.split(':').map(unescaped);
  const given = listed?.title ?? null;
  const who = given ?? (listed?.chatType === 'private' ? listed.speaker : null);
  switch (channel) {
    case 'http':
    case 'web':
      return { channel, channelName: channel === 'http' ? 'HTTP' : 'Web', title: given ?? rest.slice(1).join(':'), hint: texts.ofKey(rest[0] ?? '') };
    case 'agent': {
      const isPerson = rest[0] === 'user';
      const title = given ?? rest.at(-1) ?? key;
      return isPerson
        ? { channel: 'person', channelName: texts.direct, title, hint: texts.everyChannel }
        : { channel: 'discord', channelName: titled('discord'), title, hint: rest[0] ?? '' };
    }
    default: {
      const [id = '', , thread] = rest;
      if (kind !== 'chat') return { channel: 'http', channelName: 'HTTP', title: kind === undefined ? unescaped(key) : key, hint: '' };
      const isTelegram = channel === 'telegram';
      const unnamed = !isTelegram ? id : id.startsWith('-') ? texts.group(id) : texts.chat(id);
      const within = thread && (isTelegram ? texts.topic(thread) : texts.thread(thread));
      return { channel, channelName: titled(channel), title: who ?? unnamed, hint: within || (who ? id : '') };
    }
  }
}

export const isRoom = (key: string): boolean => key.startsWith('web:room:');
/** Returns the platform of the chat, to which messages from here are not sent, or null. */
export function platformOf(key: string): string | null {
  const { channel, channelName } = nameOf(key);
  return isPlatform(channel) ? channelName : null;
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { weekday: 'short', day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short', year: 'numeric' });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: 'medium' });

export const time = (ms: number): string => clock.format(ms);
export const moment = (ms: number): string => whole.format(ms);

export function dayOf(ms: number, now = Date.now()): string {
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(ms).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days === 0) return texts.today;
  if (days === 1) return texts.yesterday;
  return Math.abs(days) < 300 ? day.format(ms) : date.format(ms);
}

/** Formats a time for a list: `14:05`, `Yesterday`, `Tue, 3 Mar`. */
export const brief = (ms: number): string => (dayOf(ms) === texts.today ? time(ms) : dayOf(ms));
/** Formats a time as `Today 14:05`. */
export const when = (ms: number): string => `${dayOf(ms)} ${time(ms)}`;

/** Formats 1240 as `1.2k`. */
export const short = (n: number): string => (n < 1000 ? String(n) : `${(n / 1000).toFixed(n < 10_000 ? 1 : 0)}k`);

/** Shortens a long id to its start. */
export const shortId = (id: string): string => (id.length > 24 ? `${id.slice(0, 10)}…` : id);

export const textOf = (message: Pick<Message, 'parts'>): string =>
  message.parts.flatMap(part => (part.type === 'text' ? [part.text] : [])).join('\n');
