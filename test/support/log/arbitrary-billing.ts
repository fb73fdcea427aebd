import * as fc from 'fast-check';
import { INT4_MAX, id, name, actor, digest, time, int8, one } from './arbitrary-parts.ts';
import { pseudonym } from './arbitrary-request.ts';

/** Events of the issuer, of invoices and of credit notes. */

const sum = fc.bigInt({ min: -(10n ** 29n), max: 10n ** 29n }).map(String);
const invoiceNumber = {
  series: fc.constantFrom('INV-', '2026/'),
  number: fc.integer({ min: 1, max: INT4_MAX }),
  total_nanousd: sum,
};
const REQUIRED_OF_INVOICE = ['total_nanousd', 'digest', 'actor'] as const;

const oneLine = name.filter((text) => !/\p{Cc}/u.test(text));
export const BILLING = {
  'billing.changed': fc.record({
    type: one('billing.changed' as const),
    actor,
    terms: fc.record(
      {
        name: oneLine,
        address: fc.array(oneLine, { maxLength: 8 }),
        tax: oneLine,
        series: fc.constantFrom('INV-', '2026/'),
        currency: fc.constantFrom({ code: 'EUR', rate: '0.92', digits: 2 }),
      },
      { requiredKeys: ['name', 'address', 'series'], noNullPrototype: true },
    ),
  }),
  'invoice.issued': fc.record(
    {
      type: one('invoice.issued' as const),
      account: id,
      end_user: pseudonym,
      ...invoiceNumber,
      from: time,
      to: time,
      as_of: int8,
      closing_balance_nanousd: sum,
      digest,
      actor,
    },
    {
      requiredKeys: ['type', 'account', 'series', 'number', 'from', 'to', 'as_of', ...REQUIRED_OF_INVOICE],
      noNullPrototype: true,
    },
  ),
  'invoice.corrected': fc.record(
    {
      type: one('invoice.corrected' as const),
      account: id,
      end_user: pseudonym,
      ...invoiceNumber,
      invoice: fc.integer({ min: 1, max: INT4_MAX }),
      invoice_series: fc.constantFrom('INV-', '2026/'),
      from: time,
      to: time,
      as_of: int8,
      corrections: fc.array(fc.integer({ min: 1, max: INT4_MAX }), { minLength: 1, maxLength: 5 }),
      digest,
      actor,
    },
    {
      requiredKeys: [
        ...(['type', 'account', 'series', 'number', 'invoice', 'invoice_series'] as const),
        ...(['from', 'to', 'as_of', 'corrections'] as const),
        ...REQUIRED_OF_INVOICE,
      ],
      noNullPrototype: true,
    },
  ),
  'invoice.credited': fc.record({
    type: one('invoice.credited' as const),
    account: id,
    ...invoiceNumber,
    invoice: fc.integer({ min: 1, max: INT4_MAX }),
    reason: name,
    actor,
  }),
};
