// The visible texts of the console, in the browser's language. Another language is one file in text/, and a line here.
import { type Texts, en } from './text/en';
import { zh } from './text/zh';

const LANGUAGES: Record<string, Texts> = { en, zh };

/** The first of the browser's languages that the console has. */
export const language = navigator.languages.map(tag => tag.split('-')[0] ?? '').find(tag => Object.hasOwn(LANGUAGES, tag)) ?? 'en';
export const texts: Texts = LANGUAGES[language] ?? en;
