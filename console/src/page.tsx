// The frame of a page that takes the place of a chat: title, purpose and controls, above content that scrolls.
import type { ReactNode } from 'react';
import { href } from './route';
import { texts } from './text';
import { Icon } from './widgets';

interface Props {
  title: string;
  /** What the page is for, in a sentence. */
  why: string;
  /** Name of the content for screen readers. */
  content: string;
  /** Class of the content beside `scrolls`. */
  className?: string;
  controls?: ReactNode;
  children: ReactNode;
}

export function Page({ title, why, content, className, controls, children }: Props) {
  return (
    <main className="page" id="main">
      <header className="bar">
        <a className="button icon narrow" href={href({ at: 'home' })} aria-label={texts.allChats}>
          <Icon name="back" />
        </a>
        <div className="grow">
          <h1>{title}</h1>
          <p className="small">{why}</p>
        </div>
        {controls}
      </header>
      <div className={className ? `scrolls ${className}` : 'scrolls'} tabIndex={0} role="region" aria-label={content}>
        {children}
      </div>
    </main>
  );
}
