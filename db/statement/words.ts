import { formatDollars } from '#db/money.ts';
import { METERS } from '#db/limits/meters.ts';
import { limitTitle } from '#db/limits/titles.ts';
import type { LineKind, Statement, StatementAdjustment, StatementLine } from '#db/statement/document.ts';

/** The words of statements, the same in text, PDF and mail. Pure. */

export const KIND_TITLES: Record<LineKind, string> = {
  priced: 'Usage',
  abandoned: 'Abandoned requests, estimated',
  unpriced: 'Requests without a price',
  correction: 'Corrections of requests',
};

/** An amount in US dollars, exact to the nano-dollar. */
export const dollars = (nanousd: string): string => formatDollars(BigInt(nanousd));

/** A count with thousands separators, which every reader of English understands. */
export const grouped = (count: number): string => count.toLocaleString('en-US');

/** The period; a whole number of days is shown as its days, both included. */
export function periodText({ from, to }: Pick<Statement, 'from' | 'to'>): string {
  const isDay = (text: string): boolean => text.endsWith('T00:00:00.000Z');
  if (!isDay(from) || !isDay(to)) return `${from} to ${to} (UTC)`;
  const last = new Date(Date.parse(to) - 1).toISOString();
  return `${from.slice(0, 10)} to ${last.slice(0, 10)} (UTC)`;
}

/** The subject of a line besides its model. */
export function lineDetail(line: StatementLine): string {
  const { day, key, key_name: name, end_user: endUser, reference, reason } = line;
  return [
    ...(day === undefined ? [] : [day]),
    ...(key === undefined ? [] : [name === undefined ? key : `${name} (${key})`]),
    ...(endUser === undefined ? [] : [endUser === '' ? 'no end user' : endUser]),
    ...(reference === undefined ? [] : [`${reference}: ${reason ?? ''}`]),
  ].join(', ');
}

/** The adjusted units and their limit: "-2.00 USD, Lifetime cost". */
export function adjustmentText({ meter, window, amount }: StatementAdjustment): string {
  const units = METERS[meter].format === 'nanousd' ? `${dollars(String(amount))} USD` : grouped(amount);
  return `${units}, ${limitTitle({ meter, window })}`;
}

/** How the cost in the issuer's currency follows from dollars. */
export function rateText({ issuer, totals }: Statement): string {
  const currency = issuer?.currency;
  if (currency === undefined) return 'Rounded to cents, halves away from zero.';
  return (
    `1 USD = ${currency.rate} ${totals.currency}, a fixed rate; rounded to ${currency.digits} decimal ` +
    'places, halves away from zero.'
  );
}
