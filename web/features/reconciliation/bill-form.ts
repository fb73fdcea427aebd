import type { z } from 'zod';
import type { StartReconciliation } from '#server/contract/reconciliations.ts';

/** Form state of a comparison. Pure. */

type Start = z.input<typeof StartReconciliation>;
type UploadedFile = Extract<Start['bill'], { from: 'files' }>['files'][number];
export type BillFormat = UploadedFile['format'];

/** Formats of files by their names. */
export const FORMATS: readonly (readonly [id: BillFormat, name: string])[] = [
  ['openai-costs', 'OpenAI costs'],
  ['openai-usage', 'OpenAI usage'],
  ['anthropic-costs', 'Anthropic cost report'],
  ['anthropic-usage', 'Anthropic usage report'],
  ['openrouter-csv', 'OpenRouter activity export (CSV)'],
  ['openrouter-activity', 'OpenRouter activity (JSON)'],
  ['focus', 'FOCUS (CSV)'],
  ['csv', 'CSV'],
  ['bill', 'Daybook bill file'],
];

/** A chosen file, with the format that its name and beginning suggest. */
export type ChosenFile = { name: string; size: number; format: BillFormat; file: File };

export type BillForm = {
  source: 'files' | 'api';
  files: readonly ChosenFile[];
  provider: string;
  timeZone: string;
  upstream: string;
  since: string;
  until: string;
  /** Only calls of this upstream; empty: all. */
  only: string;
  /** Lines of `name on the bill = name in the log`. */
  models: string;
  credentials: string;
  rates: string;
  toleranceDollars: string;
  tolerancePpm: string;
};

const isoDay = (date: Date): string => date.toISOString().slice(0, 10);

/** An empty form, for the calendar month before a time. */
export function newForm(now: Date): BillForm {
  const month = (back: number): string =>
    isoDay(new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - back, 1)));
  return {
    source: 'files',
    files: [],
    provider: '',
    timeZone: 'UTC',
    upstream: '',
    since: month(1),
    until: month(0),
    only: '',
    models: '',
    credentials: '',
    rates: '',
    toleranceDollars: '0',
    tolerancePpm: '0',
  };
}

/** The format that a file of this name most likely has. */
export function guessFormat(name: string): BillFormat {
  const text = name.toLowerCase();
  if (text.endsWith('.ndjson') || text.endsWith('.jsonl')) return 'bill';
  if (text.includes('focus')) return 'focus';
  if (text.includes('openrouter') || text.includes('activity'))
    return text.endsWith('.json') ? 'openrouter-activity' : 'openrouter-csv';
  if (!text.endsWith('.json')) return 'csv';
  const provider = text.includes('anthropic') || text.includes('claude') ? 'anthropic' : 'openai';
  return `${provider}-${text.includes('usage') ? 'usage' : 'costs'}`;
}

/** Lines of `name = name`; a line without an equal sign maps to nothing, which the server rejects. */
export const mappedNames = (text: string): Record<string, string> =>
  Object.fromEntries(
    text
      .split('\n')
      .map((line) => line.trim())
      .filter((line) => line !== '')
      .map((line) => {
        const at = line.lastIndexOf('=');
        return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
      }),
  );

const NANO = 1_000_000_000;

/** The request of a form. */
export async function requestOf(form: BillForm): Promise<Start> {
  const named = (name: string): string | undefined => (name.trim() === '' ? undefined : name.trim());
  return {
    bill:
      form.source === 'api'
        ? { from: 'api', upstream: form.upstream, since: form.since, until: form.until }
        : {
            from: 'files',
            files: await Promise.all(
              form.files.map(async ({ name, format, file }) => ({ name, format, text: await file.text() })),
            ),
            provider: named(form.provider),
            time_zone: named(form.timeZone),
          },
    upstreams: form.only === '' ? [] : [form.only],
    models: mappedNames(form.models),
    credentials: mappedNames(form.credentials),
    rates: mappedNames(form.rates),
    tolerance_nanousd: Math.round(Number(form.toleranceDollars) * NANO),
    tolerance_ppm: Number(form.tolerancePpm),
  };
}
