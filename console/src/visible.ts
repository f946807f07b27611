// Text that people decide by, with nothing in it that they cannot see. ../../shared/core/src/visible.rs does the same for chats.

const HIDDEN =
  /(?![\n\t])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\ufffc\u{e0000}-\u{e0fff}]/gu;

/** Writes hidden characters, and those that change the text direction, as `\uXXXX`. */
export const escaped = (text: string): string =>
  text.replace(HIDDEN, found =>
    found
      .split('')
      .map(unit => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
      .join(''),
  );
