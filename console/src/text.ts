// The visible texts of the console.
import { en } from './text/en';

/** All texts of one language. */
export type Texts = typeof en;

export const texts: Texts = en;
