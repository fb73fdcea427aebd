/** Models that reply with images, by their names. Pure. */

/**
 * OpenAI's, Google's and their kind at gateways: `gpt-5-image`, `gemini-2.5-flash-image`, `qwen-image`,
 * `…-image-generation`; and families whose models do nothing else.
 */
const GENERATING = /-image($|[-:@])|(^|\/)(dall-e|imagen|flux|seedream|recraft)([-.:\d]|$)|nano-banana/i;

/** Whether a model generates images, also where the request doesn't ask for them. */
export const generatesImages = (model: string): boolean => GENERATING.test(model);
