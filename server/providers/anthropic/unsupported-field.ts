import { ApiError } from '#server/errors/api-error.ts';

/**
 * Something in a request that can't be said in Anthropic's Messages; it ends the translation from wherever it
 * is found.
 */
export class UnsupportedField extends Error {
  override name = 'UnsupportedField';
  readonly refusal: ApiError;

  /**
   * @param param the field of the client's body at fault. @param problem the end of a sentence about
   * a sentence.
   */
  constructor(param: string, problem: string) {
    super(param);
    this.refusal = new ApiError('invalid_value', { message: `The field "${param}" ${problem}.`, param });
  }
}
