import type { ChildProcess } from 'node:child_process';
import { SCRAPE_TIMEOUT_MS } from '#db/telemetry/bounds.ts';
import type { Sample } from '#db/telemetry/definition.ts';

/** Scrapes between a process and its children, over the channel that Node opens between them. */

type Asked = { scrape: number };
/** A child's answer. */
export type Scraped = { scraped: number; samples: Sample[] };

let scrapes = 0;

/** The samples of a child; null: it is gone, or did not answer in time. */
export function scrapeChild(child: ChildProcess): Promise<Sample[] | null> {
  if (!child.connected) return Promise.resolve(null);
  const number = ++scrapes;
  const { promise, resolve } = Promise.withResolvers<Sample[] | null>();
  const answered = (message: unknown): void => {
    if (isScraped(message) && message.scraped === number) resolve(message.samples);
  };
  const gone = (): void => resolve(null);
  child.on('message', answered);
  child.once('disconnect', gone);
  const timer = setTimeout(gone, SCRAPE_TIMEOUT_MS);
  child.send({ scrape: number } satisfies Asked, (error) => error && gone());
  return promise.finally(() => {
    clearTimeout(timer);
    child.off('message', answered);
    child.off('disconnect', gone);
  });
}

/** Answers the scrapes of the process that has started this one. */
export function answerScrapes(read: () => Sample[]): void {
  process.on('message', (message: unknown) => {
    if (!isAsked(message) || process.send === undefined || !process.connected) return;
    const answer: Scraped = { scraped: message.scrape, samples: read() };
    process.send(answer, undefined, undefined, () => undefined);
  });
}

export const isScraped = (message: unknown): message is Scraped =>
  typeof message === 'object' && message !== null && 'scraped' in message;

const isAsked = (message: unknown): message is Asked =>
  typeof message === 'object' && message !== null && 'scrape' in message;
