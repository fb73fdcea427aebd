import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gunzipSync } from 'node:zlib';
import { z } from 'zod';

/**
 * A receiver of OTLP/HTTP in its JSON encoding, as strict as the protocol: no unknown field, ids in hex,
 * 64-bit integers as decimal text, and exactly one kind of value per attribute.
 */

const Value = z.union([
  z.strictObject({ stringValue: z.string() }),
  z.strictObject({ intValue: z.string().regex(/^-?\d{1,19}$/) }),
  z.strictObject({ doubleValue: z.number() }),
  z.strictObject({ boolValue: z.boolean() }),
  z.strictObject({
    arrayValue: z.strictObject({ values: z.array(z.strictObject({ stringValue: z.string() })) }),
  }),
]);
const Attributes = z
  .array(z.strictObject({ key: z.string().min(1), value: Value }))
  .refine((list) => new Set(list.map(({ key }) => key)).size === list.length, 'names an attribute twice')
  .transform((list) => Object.fromEntries(list.map(({ key, value }) => [key, plain(value)])));
const Nanoseconds = z.string().regex(/^\d{19}$/);
const SpanId = z.string().regex(/^(?!0{16})[\da-f]{16}$/);

const SpanShape = z
  .strictObject({
    traceId: z.string().regex(/^(?!0{32})[\da-f]{32}$/),
    spanId: SpanId,
    parentSpanId: SpanId.optional(),
    traceState: z.string().optional(),
    flags: z.int(),
    name: z.string().min(1),
    kind: z.union([z.literal(2), z.literal(3)]),
    startTimeUnixNano: Nanoseconds,
    endTimeUnixNano: Nanoseconds,
    attributes: Attributes,
    status: z.strictObject({ code: z.literal(2).optional() }),
  })
  .refine((span) => BigInt(span.endTimeUnixNano) >= BigInt(span.startTimeUnixNano), 'ends before it begins');
export type ReceivedSpan = z.infer<typeof SpanShape>;

const Export = z.strictObject({
  resourceSpans: z.array(
    z.strictObject({
      resource: z.strictObject({ attributes: Attributes }),
      scopeSpans: z.array(
        z.strictObject({
          scope: z.strictObject({ name: z.string(), version: z.string() }),
          spans: z.array(SpanShape).min(1),
        }),
      ),
    }),
  ),
});

export type OtlpReceiver = AsyncDisposable & {
  url: string;
  spans: ReceivedSpan[];
  resources: Record<string, unknown>[];
  /** What it could not read. */
  problems: string[];
  headers: Record<string, unknown>[];
  /** The bodies as text. */
  bodies: string[];
  /** Its answer from now on. */
  answer: { status: number; body: string };
};

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const receiver: Omit<OtlpReceiver, 'url' | typeof Symbol.asyncDispose> = {
    spans: [],
    resources: [],
    problems: [],
    headers: [],
    bodies: [],
    answer: { status: 200, body: '{}' },
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { status, body } = receiver.answer;
      const raw = Buffer.concat(chunks);
      const text = (request.headers['content-encoding'] === 'gzip' ? gunzipSync(raw) : raw).toString();
      receiver.headers.push(request.headers);
      receiver.bodies.push(text);
      if (request.method !== 'POST' || request.url !== '/v1/traces')
        receiver.problems.push(`${request.method} ${request.url}`);
      if (status === 200) read(text);
      response.writeHead(status, { 'content-type': 'application/json' }).end(body);
    });
  });
  function read(text: string): void {
    const parsed = Export.safeParse(JSON.parse(text));
    if (!parsed.success) return void receiver.problems.push(z.prettifyError(parsed.error));
    for (const { resource, scopeSpans } of parsed.data.resourceSpans) {
      receiver.resources.push(resource.attributes);
      for (const { spans } of scopeSpans) receiver.spans.push(...spans);
    }
  }
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return Object.assign(receiver, {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  });
}

function plain(value: z.infer<typeof Value>): string | number | boolean | string[] {
  if ('stringValue' in value) return value.stringValue;
  if ('intValue' in value) return Number(value.intValue);
  if ('doubleValue' in value) return value.doubleValue;
  if ('boolValue' in value) return value.boolValue;
  return value.arrayValue.values.map(({ stringValue }) => stringValue);
}
