import type { UsageDetails } from '#db/events/usage-details.ts';
import type { Usage } from '#db/money.ts';
import { TOKENS_BELIEVED_MAX } from '#server/wire/bounds.ts';
import { asRecord, count } from '#server/wire/counts.ts';
import type { PromptUsage } from '#server/wire/sse.ts';

/**
 * The usage that Gemini reports. It counts thoughts beside the candidates, and what its tools have found
 * beside the prompt. Pure.
 */
export type GeminiUsage = { usage: Usage | null; promptUsage: PromptUsage | null; isImplausible: boolean };

const NOTHING: GeminiUsage = { usage: null, promptUsage: null, isImplausible: false };

/** @param isEnded whether the reply has ended: a report without an output is that of an empty one then. */
export function parseGeminiUsage(value: unknown, isEnded: boolean): GeminiUsage {
  const report = asRecord(value);
  if (!report || typeof report['promptTokenCount'] !== 'number') return NOTHING;
  const counts = [
    'promptTokenCount',
    'toolUsePromptTokenCount',
    'cachedContentTokenCount',
    'candidatesTokenCount',
    'thoughtsTokenCount',
  ] as const;
  const given = counts.map((name) => report[name] ?? 0);
  if (given.some((each) => typeof each !== 'number')) return NOTHING;
  if (given.some((each) => !((each as number) >= 0 && (each as number) <= TOKENS_BELIEVED_MAX)))
    return { ...NOTHING, isImplausible: true };
  const [prompt, found, cachedTokens, candidates, reasoning] = given.map(count) as [
    number,
    number,
    number,
    number,
    number,
  ];
  const input = prompt + found;
  const usage: Usage = {
    input,
    cached: Math.min(cachedTokens, input),
    output: candidates + reasoning,
    reasoning,
  };
  const details = detailsOf(report, usage);
  if (details) usage.details = details;
  const hasOutput = candidates + reasoning > 0;
  const { output: _output, reasoning: _reasoning, ...promptUsage } = usage;
  return { usage: hasOutput || isEnded ? usage : null, promptUsage, isImplausible: false };
}

/** The tokens of audio and images, which have prices of their own. */
function detailsOf(
  report: Record<string, unknown>,
  { input, cached, output, reasoning }: Usage,
): UsageDetails | undefined {
  const details: UsageDetails = {};
  const add = (name: keyof UsageDetails, tokens: number): void => {
    if (tokens > 0) details[name] = tokens;
  };
  const prompt = modalities(report['promptTokensDetails']);
  const reply = modalities(report['candidatesTokensDetails']);
  const audioIn = Math.min(prompt.audio, input - cached);
  add('audio_input_tokens', audioIn);
  add('image_input_tokens', Math.min(prompt.image, input - cached - audioIn));
  const audioOut = Math.min(reply.audio, output - reasoning);
  add('audio_output_tokens', audioOut);
  add('image_output_tokens', Math.min(reply.image, output - reasoning - audioOut));
  return Object.keys(details).length === 0 ? undefined : details;
}

function modalities(list: unknown): { audio: number; image: number } {
  const found = { audio: 0, image: 0 };
  for (const each of Array.isArray(list) ? list.map(asRecord) : []) {
    if (each?.['modality'] === 'AUDIO') found.audio += count(each['tokenCount']);
    if (each?.['modality'] === 'IMAGE') found.image += count(each['tokenCount']);
  }
  return found;
}
