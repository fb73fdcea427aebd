import { z } from 'zod';
import type { BillCollector } from '#db/reconcile/bill/collector.ts';
import { parseScaled } from '#db/reconcile/bill/decimal.ts';
import { BillFormatError } from '#db/reconcile/bill/format-error.ts';

/** Reads the JSON of providers' billing APIs without binary fractions. Pure. */

/** Parses JSON with each number as its source text: a binary fraction isn't the amount that was sent. */
export function parseExactJson(text: string, place: string): unknown {
  try {
    return JSON.parse(text, (_name, value: unknown, context?: { source?: string }) =>
      typeof value === 'number' ? context?.source : value,
    ) as unknown;
  } catch (error) {
    // The parser's message quotes the text, and names the position at its end.
    const at = /position \d+|line \d+ column \d+/.exec((error as Error).message)?.[0];
    throw new BillFormatError(place, `It is not JSON${at === undefined ? '' : ` (${at})`}.`);
  }
}

/** A number as its source text. */
export const DecimalText = z.string().max(100);

/** A count: an integer that is not negative. */
export const WholeNumber = z.string().transform((text, context) => {
  const value = parseScaled(text, 0);
  if (value !== null && value >= 0n) return value;
  context.addIssue({ code: 'custom', message: 'is not a whole number' });
  return z.NEVER;
});

/** Text that names something. Empty means absent. */
export const NameText = z
  .string()
  .max(500)
  .nullish()
  .transform((text) => (text === '' ? null : (text ?? null)));

/** Parses a part of a bill. @throws {BillFormatError} with its place and the member that is wrong. */
export function parseAt<T extends z.ZodType>(schema: T, value: unknown, place: string): z.infer<T> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const [issue] = parsed.error.issues;
  const path = (issue?.path ?? []).map(String).join('.');
  throw new BillFormatError(
    place,
    `${path === '' ? 'It' : `"${path}"`}: ${issue?.message ?? 'is malformed'}.`,
  );
}

/** A bucket of a page. OpenAI's and Anthropic's reports have the same pages. */
export type Bucket = { from: Date; to: Date; results: readonly unknown[] };

const Page = z.object({
  data: z.array(z.unknown()),
  has_more: z.boolean().optional(),
  next_page: z.string().nullish(),
});

/** Whether another page follows this one. */
export function nextPageOf(page: unknown, place: string): string | null {
  const { has_more, next_page } = parseAt(Page, page, place);
  if (has_more !== true) return null;
  if (next_page === null || next_page === undefined || next_page === '')
    throw new BillFormatError(place, 'It has "has_more" but no "next_page".');
  return next_page;
}

/** A result of a report, with its place and the interval of its bucket. */
export type ReportResult = { place: string; from: Date; to: Date; result: unknown };

/**
 * The results of a report's pages. Each bucket may be there once, and no page may be missing.
 * @param bucketOf reads one bucket's interval and results.
 * @throws {BillFormatError}
 */
export function* resultsOf(
  pages: readonly unknown[],
  report: string,
  collector: BillCollector,
  bucketOf: (bucket: unknown, place: string) => Bucket,
): Iterable<ReportResult> {
  const seen = new Map<number, string>();
  for (const [index, page] of pages.entries()) {
    const pagePlace = `${report} page ${index + 1}`;
    if (nextPageOf(page, pagePlace) !== null && index === pages.length - 1)
      throw new BillFormatError(pagePlace, 'More pages follow it, which are missing.');
    for (const [at, value] of parseAt(Page, page, pagePlace).data.entries()) {
      const place = `${pagePlace} bucket ${at + 1}`;
      const { from, to, results } = bucketOf(value, place);
      const before = seen.get(+from);
      if (before !== undefined)
        throw new BillFormatError(place, `It has the same time as ${before}. Each bucket may be there once.`);
      seen.set(+from, place);
      collector.cover(place, { from, to });
      for (const [resultIndex, result] of results.entries())
        yield { place: `${place} result ${resultIndex + 1}`, from, to, result };
    }
  }
}
