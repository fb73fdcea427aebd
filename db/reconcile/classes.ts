/** The classes of differences between a provider's bill and the log. Pure. */

export const DIFFERENCE_CLASSES = [
  'missing_here',
  'missing_there',
  'outside_relay',
  'failed_attempt',
  'unknown_ending',
  'duplicate',
  'request_id',
  'price',
  'no_price',
  'rounding',
  'token_class',
  'token_count',
  'units',
  'service_tier',
  'model_name',
  'credential',
  'day_boundary',
  'late_usage',
  'currency',
  'discount',
  'refund',
  'credit',
  'fee',
  'tax',
  'unexplained',
] as const;
export type DifferenceClass = (typeof DIFFERENCE_CLASSES)[number];

/** What a class means, and what an operator does about it. */
export type ClassText = { name: string; meaning: string; action: string };

const ASK = 'Ask the provider for a correction, with the request ids of the report.';
const APPLY = 'Apply the difference: the recorded figures become those of the bill.';
const NONE = 'Nothing: it is explained, and part of the bill.';

/** The text of a class, for reports, pages and docs. */
export function describeClass(each: DifferenceClass): ClassText {
  switch (each) {
    case 'missing_here':
      return {
        name: 'Missing in the log',
        meaning: 'The provider billed a request with a credential of this relay that the log does not have.',
        action: 'Look for other users of the credential, and rotate it.',
      };
    case 'missing_there':
      return {
        name: 'Missing on the bill',
        meaning: 'The log has a request with a cost that the provider did not bill.',
        action: 'Compare again when the next bill is complete: the provider may still bill it.',
      };
    case 'outside_relay':
      return {
        name: 'Outside the relay',
        meaning: 'The provider billed a credential that no upstream of this relay has.',
        action: 'Name the credential when you compare, or find out where it is used.',
      };
    case 'failed_attempt':
      return {
        name: 'Failed attempt billed',
        meaning: 'The provider billed an attempt that failed and is recorded without usage.',
        action: APPLY,
      };
    case 'unknown_ending':
      return {
        name: 'Unknown ending',
        meaning: 'The call ended without a usage report, so its recorded usage was counted or estimated.',
        action: APPLY,
      };
    case 'duplicate':
      return {
        name: 'Billed twice',
        meaning: 'The provider billed one request more than once.',
        action: ASK,
      };
    case 'request_id':
      return {
        name: 'No request id',
        meaning: 'A line of the bill has no request id; it was matched by time, model and usage.',
        action: NONE,
      };
    case 'price':
      return {
        name: 'Price',
        meaning: 'Usage agrees, but the provider charges another price than the one that was in force here.',
        action: 'Correct the price and reprice the period, or apply the difference.',
      };
    case 'no_price':
      return {
        name: 'No price set',
        meaning: 'The call was recorded without a price for a part of its usage.',
        action: 'Set the price and reprice the period, or apply the difference.',
      };
    case 'rounding':
      return {
        name: 'Rounding',
        meaning: 'The provider rounds its amounts to a coarser unit than a nano-dollar.',
        action: NONE,
      };
    case 'token_class':
      return {
        name: 'Token class',
        meaning: 'The sum of tokens agrees, but the provider counts some in another class, such as cached.',
        action: APPLY,
      };
    case 'token_count':
      return {
        name: 'Token count',
        meaning: 'The provider counts other numbers of tokens for the same requests.',
        action: APPLY,
      };
    case 'units':
      return {
        name: 'Units',
        meaning: 'The provider counts other numbers of web searches, images, tool calls or minutes of media.',
        action: APPLY,
      };
    case 'service_tier':
      return {
        name: 'Service tier',
        meaning: 'The provider billed another service tier than the reply named.',
        action: 'Add a rule for the tier to the price, or apply the difference.',
      };
    case 'model_name':
      return {
        name: 'Model name',
        meaning: 'The bill has the usage under another name of the model.',
        action: 'Name the model when you compare, so that the next comparison agrees.',
      };
    case 'credential':
      return {
        name: 'Credential',
        meaning: 'The bill has the usage under another credential of this relay.',
        action: 'Check the credentials that --credential maps.',
      };
    case 'day_boundary':
      return {
        name: 'Day boundary',
        meaning: 'The provider booked the usage on the neighboring day, as in another time zone.',
        action: 'Name the time zone of the bill, or compare a period with both days.',
      };
    case 'late_usage':
      return {
        name: 'Late usage',
        meaning: 'The provider booked the usage a day or more after the call.',
        action: 'Compare a period that has both days.',
      };
    case 'currency':
      return {
        name: 'Currency',
        meaning: 'The provider billed in another currency than US dollars.',
        action: 'Name the exchange rate when you compare. Without one the lines are in no dollar total.',
      };
    case 'discount':
      return { name: 'Discount', meaning: 'A line of the bill is a discount.', action: NONE };
    case 'refund':
      return { name: 'Refund', meaning: 'A line of the bill is a refund.', action: NONE };
    case 'credit':
      return { name: 'Credit', meaning: 'A line of the bill is a credit.', action: NONE };
    case 'fee':
      return { name: 'Fee', meaning: 'A line of the bill is a fee.', action: NONE };
    case 'tax':
      return { name: 'Tax', meaning: 'A line of the bill is a tax.', action: NONE };
    case 'unexplained':
      return {
        name: 'Unexplained',
        meaning: 'No rule explains the difference.',
        action: 'Compare a bill with request ids for the day.',
      };
  }
}

/**
 * Whether the recorded figures are wrong where the class holds, so that `usage.adjusted` can correct them.
 * In the others the bill has more or less than usage of recorded requests.
 */
export function isCorrectable(each: DifferenceClass): boolean {
  switch (each) {
    case 'failed_attempt':
    case 'unknown_ending':
    case 'price':
    case 'no_price':
    case 'rounding':
    case 'token_class':
    case 'token_count':
    case 'units':
    case 'service_tier':
    case 'model_name':
      return true;
    case 'missing_here':
    case 'missing_there':
    case 'outside_relay':
    case 'duplicate':
    case 'request_id':
    case 'credential':
    case 'day_boundary':
    case 'late_usage':
    case 'currency':
    case 'discount':
    case 'refund':
    case 'credit':
    case 'fee':
    case 'tax':
    case 'unexplained':
      return false;
  }
}
