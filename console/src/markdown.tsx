// Markdown of a model. react-markdown creates React elements, not HTML, and removes unsafe URLs.
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

/** GitHub's tables, bare URLs and strikethrough. `remark-gfm` would add footnotes and a Markdown serialiser. */
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
  // Headings belong to the page.
  h1: heading, h2: heading, h3: heading, h4: heading, h5: heading, h6: heading,
  a: link,
  // Loading a remote picture would tell its server that the message was read, and could leak data that the model put into the URL.
  img: ({ src, alt }) => link({ href: typeof src === 'string' ? src : undefined, children: `🖼 ${alt || 'picture'}` }),
};

export const Markdown = memo(({ text }: { text: string }) => (
  <div className="markdown">
    <ReactMarkdown remarkPlugins={[gfm as never]} components={components}>
      {text}
    </ReactMarkdown>
  </div>
));
