// Markdown of a model. react-markdown creates React elements, not HTML, and removes unsafe URLs.
import type { Element } from 'hast';
import type { Root } from 'mdast';
import { gfmAutolinkLiteralFromMarkdown } from 'mdast-util-gfm-autolink-literal';
import { gfmStrikethroughFromMarkdown } from 'mdast-util-gfm-strikethrough';
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmTaskListItemFromMarkdown } from 'mdast-util-gfm-task-list-item';
import { gfmAutolinkLiteral } from 'micromark-extension-gfm-autolink-literal';
import { gfmStrikethrough } from 'micromark-extension-gfm-strikethrough';
import { gfmTable } from 'micromark-extension-gfm-table';
import { gfmTaskListItem } from 'micromark-extension-gfm-task-list-item';
import { memo, type ReactNode } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import remarkBreaks from 'remark-breaks';
import type { Processor } from 'unified';
import { highlight, languageOf, textIn } from './highlight';
import { texts } from './text';
import { Copy } from './widgets';

/** GitHub's tables, task lists, bare URLs and strikethrough. `remark-gfm` would add footnotes and a Markdown serialiser. */
function gfm(this: Processor<Root>): undefined {
  const data = this.data() as { micromarkExtensions?: unknown[]; fromMarkdownExtensions?: unknown[] };
  (data.micromarkExtensions ??= []).push(gfmTable(), gfmTaskListItem(), gfmStrikethrough(), gfmAutolinkLiteral());
  const { fromMarkdownExtensions: trees = [] } = data;
  trees.push(gfmTableFromMarkdown(), gfmTaskListItemFromMarkdown(), gfmStrikethroughFromMarkdown(), gfmAutolinkLiteralFromMarkdown());
  data.fromMarkdownExtensions = trees;
}

const heading = ({ children }: { children?: ReactNode }) => <p className="heading">{children}</p>;
const link = ({ href, children }: { href?: string | undefined; children?: ReactNode }) =>
  href ? (
    <a href={href} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  ) : (
    <>{children}</>
  );

function CodeBlock({ node, children }: { node?: Element | undefined; children?: ReactNode }) {
  const code = node?.children.find(child => child.type === 'element');
  return (
    <div className="code">
      <div className="row spread small">
        <span>{code && languageOf(code)}</span>
        <Copy text={node ? textIn(node) : ''} label={texts.copyCode} />
      </div>
      <pre>{children}</pre>
    </div>
  );
}

const components: Components = {
  pre: CodeBlock,
  // A wide table scrolls by itself, which the keyboard can do, too.
  table: ({ children }) => (
    <div className="table" role="group" aria-label={texts.table} tabIndex={0}>
      <table>{children}</table>
    </div>
  ),
  input: ({ checked }) => <input type="checkbox" checked={checked ?? false} disabled aria-label={checked ? texts.isDone : texts.isToDo} />,
  // Headings belong to the page.
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading,
  a: link,
  // Loading a remote picture would tell its server that the message was read, and could leak data that the model put into the URL.
  img: ({ src, alt }) => link({ href: typeof src === 'string' ? src : undefined, children: `🖼 ${alt || texts.picture}` }),
};

export const Markdown = memo(({ text }: { text: string }) => (
  <div className="markdown">
    <ReactMarkdown remarkPlugins={[gfm as never, remarkBreaks]} rehypePlugins={[highlight]} components={components}>
      {text}
    </ReactMarkdown>
  </div>
));
