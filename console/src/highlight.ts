// Highlighting of code, by highlight.js as lowlight makes elements of it: no HTML, and no style that the policy would refuse. The
// languages are those that people ask bots about most, for a tenth of the bundle; code in others is shown as it is.
import type { Element, ElementContent, Root } from 'hast';
import bash from 'highlight.js/lib/languages/bash';
import c from 'highlight.js/lib/languages/c';
import css from 'highlight.js/lib/languages/css';
import diff from 'highlight.js/lib/languages/diff';
import go from 'highlight.js/lib/languages/go';
import java from 'highlight.js/lib/languages/java';
import javascript from 'highlight.js/lib/languages/javascript';
import json from 'highlight.js/lib/languages/json';
import python from 'highlight.js/lib/languages/python';
import rust from 'highlight.js/lib/languages/rust';
import sql from 'highlight.js/lib/languages/sql';
import typescript from 'highlight.js/lib/languages/typescript';
import xml from 'highlight.js/lib/languages/xml';
import yaml from 'highlight.js/lib/languages/yaml';
import { createLowlight } from 'lowlight';

const lowlight = createLowlight({ bash, c, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml });
/** Longest code that is highlighted, in characters: about 20 ms. An answer that streams is rendered again and again. */
const MOST = 20_000;

/** A rehype plugin that highlights blocks of code whose language is given. */
export const highlight = () => (tree: Root) => visit(tree);

function visit(node: Root | Element): void {
  for (const child of node.children) {
    if (child.type !== 'element') continue;
    const language = child.tagName === 'code' ? languageOf(child) : undefined;
    if (language === undefined) visit(child);
    else if (lowlight.registered(language) && textIn(child).length <= MOST) {
      child.children = lowlight.highlight(language, textIn(child)).children as ElementContent[];
    }
  }
}

/** Returns the language of a `code` element, as its author named it. */
export function languageOf(code: Element): string | undefined {
  const names = code.properties.className;
  const name = Array.isArray(names) ? names.find(name => String(name).startsWith('language-')) : undefined;
  return name === undefined ? undefined : String(name).slice('language-'.length);
}

export const textIn = (node: ElementContent): string =>
  node.type === 'text' ? node.value : node.type === 'element' ? node.children.map(textIn).join('') : '';
