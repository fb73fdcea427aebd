/**
 * Models whose requests name what the provider then searches or looks up by itself, by their names. Pure.
 */

/**
 * OpenRouter's suffix for any model; Perplexity's models, also at gateways; OpenAI's for search and research;
 * Groq's, which run tools.
 */
const SEARCHING =
  /:online$|(^|\/)sonar($|[-:])|-search-(preview|api)($|[-:])|-deep-research($|[-:])|(^|\/)compound($|[-:])/i;
/** A stored preset of OpenRouter, with a prompt and tools of its own. */
const PRESET = /@preset\//i;

/** Whether a model searches the web without being asked to. */
export const searchesByItself = (model: string): boolean => SEARCHING.test(model);

/** Whether a name refers to a stored preset. */
export const isPreset = (model: string): boolean => PRESET.test(model);
