import type { AlertMessage } from './message.ts';

/** An alert as an email in plain text. Pure. */
export function emailOf({ title, line, facts, url }: AlertMessage): { subject: string; text: string } {
  return {
    subject: `[Daybook] ${title}`,
    text: [
      line,
      '',
      ...facts.map(([name, value]) => `${name}: ${value}`),
      ...(url === null ? [] : ['', url]),
      '',
    ].join('\n'),
  };
}
