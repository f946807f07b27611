// What a model says, as Markdown. react-markdown makes React elements of it and no HTML, and keeps unsafe addresses out.
import type { Root } from 'mdast';
import { gfmAutolinkLiteralFromMarkdown } from 'mdast-util-gfm-autolink-literal';
import { gfmStrikethroughFromMarkdown } from 'mdast-util-gfm-strikethrough';
import { gfmTableFromMarkdown } from 'mdast-util-gfm-table';
import { gfmAutolinkLiteral } from 'micromark-extension-gfm-autolink-literal';
import { gfmStrikethrough } from 'micromark-extension-gfm-strikethrough';
import { gfmTable } from 'micromark-extension-gfm-table';
import { memo, type ReactNode } from 'react';
import ReactMarkdown, { type Components } from 'react-markdown';
import type { Processor } from 'unified';

/** GitHub's tables, bare addresses and crossed-out words. `remark-gfm` has footnotes, and a writer of Markdown, with them. */
function gfm(this: Processor<Root>): undefined {
  const data = this.data() as { micromarkExtensions?: unknown[]; fromMarkdownExtensions?: unknown[] };
  (data.micromarkExtensions ??= []).push(gfmTable(), gfmStrikethrough(), gfmAutolinkLiteral());
  (data.fromMarkdownExtensions ??= []).push(gfmTableFromMarkdown(), gfmStrikethroughFromMarkdown(), gfmAutolinkLiteralFromMarkdown());
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

const components: Components = {
  // The page has headings of its own.
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading,
  a: link,
  // A picture from elsewhere would tell its server that it was seen, and by it a model could tell what it knows.
  img: ({ src, alt }) => link({ href: typeof src === 'string' ? src : undefined, children: `🖼 ${alt || 'picture'}` }),
};

export const Markdown = memo(({ text }: { text: string }) => (
  <div className="markdown">
    <ReactMarkdown remarkPlugins={[gfm as never]} components={components}>
      {text}
    </ReactMarkdown>
  </div>
));
