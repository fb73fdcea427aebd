import { Refusal } from '#server/errors/api-error.ts';

/**
 * Something in a request that can't be said in Anthropic's Messages; it ends the translation from wherever it
 * is found.
 */
export class Unsayable extends Error {
  override name = 'Unsayable';
  readonly refusal: Refusal;

  /**
   * @param param the field of the client's body at fault. @param problem what is wrong with it, as the end of
   * a sentence.
   */
  constructor(param: string, problem: string) {
    super(param);
    this.refusal = new Refusal('invalid_value', { message: `The field "${param}" ${problem}.`, param });
  }
}
