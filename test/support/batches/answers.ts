/** What a provider of batches answers. */
export type BatchAnswer =
  | { status: number; body: object | Buffer; cutAfter?: number; isSlow?: true }
  /** The connection is closed without a reply. */
  | 'cut';

/** The usage that the line with this number, from 0, reports. */
export const usageOfLine = (number: number): { prompt: number; completion: number } => ({
  prompt: 101 + number,
  completion: 7 + (number % 5),
});
