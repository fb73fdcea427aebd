import express, { type RequestHandler, type Router } from 'express';
import type { ApiRoute } from '#server/dashboard/gate.ts';
import { sendBytes } from '#server/http/respond.ts';
import { describeApi } from '#server/openapi/document.ts';
import { referencePage } from '#server/openapi/reference.ts';

export const OPENAPI_PATH = '/api/v1/openapi.json';
const LLMS_PATH = '/llms.txt';
const REFERENCE_PATH = '/docs/api-reference.html';
const KEEP = 'public, max-age=300';

/** The description of the API, public: it says nothing about this installation. Made at the first request. */
export function openApiRoutes(routes: readonly ApiRoute[], headers: RequestHandler): Router {
  const router = express.Router({ caseSensitive: true });
  let document: Buffer | null = null;
  let reference: Buffer | null = null;
  router.get(OPENAPI_PATH, (_request, response) => {
    document ??= Buffer.from(JSON.stringify(describeApi(routes)));
    sendBytes(response, document, 'application/json; charset=utf-8', KEEP);
  });
  router.get(LLMS_PATH, (_request, response) => {
    sendBytes(response, LLMS, 'text/plain; charset=utf-8', KEEP);
  });
  router.get(REFERENCE_PATH, headers, (_request, response) => {
    reference ??= Buffer.from(referencePage(describeApi(routes)));
    sendBytes(response, reference, 'text/html; charset=utf-8', KEEP);
  });
  return router;
}

/** The guide for programs that read documentation, in the format of https://llmstxt.org. */
const LLMS = Buffer.from(`# Daybook

> A relay for model APIs that records every call in a provable log, with exact limits. Clients of OpenAI,
> Anthropic and Gemini use it by changing their base URL and key.

## Use

- Relay: base URL \`/v1\` of this server, \`Authorization: Bearer dbk_…\` (an API key).
  Also \`x-api-key\` for \`/v1/messages\`, and \`x-goog-api-key\` for Gemini's routes.
- Models of a key: \`GET /v1/models\`. Its limits and usage: \`GET /v1/usage\`.
  Its requests: \`GET /v1/requests\`.
- Send \`Idempotency-Key\` with a request that may be retried: it is carried out and charged once.
- Errors: \`{"error": {"message", "type", "code", "param"}, "request_id"}\`.
  429 \`rate_limit_exceeded\` has \`Retry-After\`; 429 \`insufficient_quota\` lasts until the quota resets.
- Management API: \`/api/v1\`, \`Authorization: Bearer dbm_…\` (a management key with scopes).

## API

- [OpenAPI 3.1](${OPENAPI_PATH}): every route with its parameters, bodies, replies and scopes
- [Documentation](/docs): the pages of this version
`);
