import {
  completionJson,
  completionSse,
  embeddingsJson,
  imagesJson,
  moderationJson,
  rerankJson,
  speechBytes,
  speechSse,
  transcriptSse,
} from './completion-parts.ts';
import { geminiError, geminiJson, geminiSse } from './gemini-parts.ts';
import { errorObject } from './heads.ts';
import type { Attempt } from './ledger.ts';
import { messageError, messageErrorObject, messageJson, messageSse } from './message-parts.ts';
import { errorPart, jsonParts, type Part, sseParts, type Subject } from './parts.ts';
import { responseError, responseJson, responseSse } from './response-parts.ts';
import type { Script } from './script.ts';

/** What replies on one route look like. */
export type Shape = {
  sse(script: Script, subject: Subject): Iterable<Part>;
  json(script: Script, subject: Subject): Iterable<Part>;
  /** The type of a reply that is neither JSON nor events, and whose length nothing states. */
  bytes?: string;
  /** An error after a status of 200. */
  error(script: Script, sse: boolean): Part;
  /** The body under a status that is no success. */
  errorJson(status: number, credential: string | null): object;
};

const CHAT: Shape = { sse: sseParts, json: jsonParts, error: errorPart, errorJson: errorObject };

const SHAPES: ReadonlyMap<string, Shape> = new Map([
  ['/v1/chat/completions', CHAT],
  ['/v1/completions', { ...CHAT, sse: completionSse, json: completionJson }],
  ['/v1/embeddings', { ...CHAT, json: embeddingsJson }],
  ['/v1/moderations', { ...CHAT, json: moderationJson }],
  ['/v1/rerank', { ...CHAT, json: rerankJson }],
  ['/v1/images/generations', { ...CHAT, json: imagesJson }],
  ['/v1/audio/transcriptions', { ...CHAT, sse: transcriptSse }],
  ['/v1/audio/speech', { ...CHAT, sse: speechSse, json: speechBytes, bytes: 'audio/mpeg' }],
  ['/v1/responses', { ...CHAT, sse: responseSse, json: responseJson, error: responseError }],
  [
    '/v1/messages',
    { sse: messageSse, json: messageJson, error: messageError, errorJson: messageErrorObject },
  ],
]);
const GEMINI: Shape = { ...CHAT, sse: geminiSse, json: geminiJson, error: geminiError };
/** Gemini's own API names the model, and whether it streams, in the path. */
const GEMINI_PATH = /^\/v1beta\/models\/(.+):(generateContent|streamGenerateContent)$/;

/** The shape of a path; undefined where no model is called there. */
export const shapeAt = (path: string): Shape | undefined =>
  SHAPES.get(path) ?? (GEMINI_PATH.test(path) ? GEMINI : undefined);

export const shapeOf = (path: string): Shape => shapeAt(path) ?? CHAT;

type Asked = Pick<Attempt, 'model' | 'user' | 'sse' | 'askedUsage'>;

/** What is asked at a path, given what its body says. */
export function readAsked(path: string, asked: Asked): Asked {
  const [, model, verb] = GEMINI_PATH.exec(path) ?? [];
  return model === undefined
    ? asked
    : { ...asked, model: decodeURIComponent(model), sse: verb === 'streamGenerateContent' };
}
