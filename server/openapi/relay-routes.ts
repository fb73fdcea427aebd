import { z } from 'zod';
import { RELAYED_ROUTES, type RelayedRoute } from '#db/limits/limits.ts';
import { RequestDetail, RequestListQuery, RequestPage } from '#server/contract/requests.ts';
import { SpendEventPage, SpendEventsQuery } from '#server/contract/spend-events.ts';
import type { ReplyType } from '#server/dashboard/gate.ts';
import { UsageQuery, UsageReport } from '#server/contract/usage.ts';

/** The relay's own routes, which API keys use. Bodies and replies are those of the providers. */

type RelayRoute = {
  method: 'get' | 'post';
  path: string;
  summary: string;
  query?: z.ZodType;
  body?: { type: 'application/json' | 'multipart/form-data'; schema: z.ZodType };
  reply: z.ZodType;
  others?: readonly ReplyType[];
};

const Message = z.looseObject({ role: z.string(), content: z.unknown().optional() });
/** What the relay reads of a body; any other field passes. */
const WithModel = z.looseObject({ model: z.string() });
const Chat = z.looseObject({
  model: z.string(),
  messages: z.array(Message),
  stream: z.boolean().nullable().optional(),
});
const Anything = z.looseObject({});

const FORMS: readonly RelayedRoute[] = [
  '/v1/images/edits',
  '/v1/images/variations',
  '/v1/audio/transcriptions',
  '/v1/audio/translations',
];
const bodyOf = (route: RelayedRoute): NonNullable<RelayRoute['body']> => ({
  type: FORMS.includes(route) ? 'multipart/form-data' : 'application/json',
  schema: route === '/v1/chat/completions' || route === '/v1/messages' ? Chat : WithModel,
});

const ModelEntry = z.looseObject({ id: z.string(), object: z.literal('model') });

export const RELAY_ROUTES: readonly RelayRoute[] = [
  ...RELAYED_ROUTES.map((route): RelayRoute => ({
    method: 'post',
    path: route,
    summary: `Relay a request to ${route.slice('/v1/'.length)}`,
    body: bodyOf(route),
    reply: Anything,
  })),
  {
    method: 'get',
    path: '/v1/models',
    summary: 'List the models that the key can call',
    reply: z.looseObject({ object: z.literal('list'), data: z.array(ModelEntry) }),
  },
  { method: 'get', path: '/v1/models/:model', summary: 'Get a model', reply: ModelEntry },
  {
    method: 'get',
    path: '/v1/usage',
    summary: 'Get the usage and limits of the key',
    query: UsageQuery,
    reply: UsageReport,
    others: ['text/csv'],
  },
  {
    method: 'get',
    path: '/v1/requests',
    summary: 'List the requests of the key',
    query: RequestListQuery,
    reply: RequestPage,
    others: ['text/csv'],
  },
  { method: 'get', path: '/v1/requests/:request', summary: 'Get a request', reply: RequestDetail },
  {
    method: 'get',
    path: '/v1/spend-events',
    summary: 'List spend events',
    query: SpendEventsQuery,
    reply: SpendEventPage,
  },
];
