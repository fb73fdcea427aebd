import { z } from 'zod';
import { KeyTerms, PlanTerms } from '#db/events/events.ts';
import { UpstreamTerms } from '#db/events/upstream-events.ts';
import * as accounts from '#server/contract/accounts.ts';
import * as alerts from '#server/contract/alerts.ts';
import * as attribution from '#server/contract/attribution.ts';
import * as audit from '#server/contract/audit.ts';
import * as backtest from '#server/contract/backtest.ts';
import * as desiredState from '#server/contract/desired-state/desired-state.ts';
import * as events from '#server/contract/events.ts';
import * as keys from '#server/contract/keys.ts';
import * as limits from '#server/contract/limits.ts';
import * as members from '#server/contract/members.ts';
import * as models from '#server/contract/models.ts';
import { ChangeReply } from '#server/contract/parts.ts';
import * as reconciliations from '#server/contract/reconciliations.ts';
import * as requests from '#server/contract/requests.ts';
import * as session from '#server/contract/session.ts';
import * as sinks from '#server/contract/sinks.ts';
import * as spendEvents from '#server/contract/spend-events.ts';
import * as statements from '#server/contract/statements.ts';
import * as status from '#server/contract/status.ts';
import * as upstreams from '#server/contract/upstreams.ts';
import * as usage from '#server/contract/usage.ts';
import * as workloads from '#server/contract/identity/workloads.ts';

/** The contracts' schemas as JSON Schema, each under its name. */

export type JsonSchema = { [member: string]: unknown };

const CONTRACTS: readonly object[] = [
  { KeyTerms, PlanTerms, UpstreamTerms, ChangeReply },
  accounts,
  alerts,
  attribution,
  audit,
  backtest,
  desiredState,
  events,
  keys,
  limits,
  members,
  models,
  reconciliations,
  requests,
  session,
  sinks,
  spendEvents,
  statements,
  status,
  upstreams,
  usage,
  workloads,
];

/** Schemas that have a name: the objects and unions of the contracts, not their scalar parts. */
const NAMES: ReadonlyMap<z.ZodType, string> = namesOf();

function namesOf(): Map<z.ZodType, string> {
  const names = new Map<z.ZodType, string>();
  for (const contract of CONTRACTS)
    for (const [name, value] of Object.entries(contract))
      if (value instanceof z.ZodObject || value instanceof z.ZodUnion || value instanceof z.ZodIntersection)
        if (!names.has(value)) names.set(value, name);
  return names;
}

const REF = '#/components/schemas/';
const OPTIONS = {
  io: 'input',
  unrepresentable: 'any',
  target: 'draft-2020-12',
  override: ({ jsonSchema }: { jsonSchema: JsonSchema }): void => {
    // The server takes IPv6 addresses that end in an IPv4 part, too, which the pattern leaves out.
    if (String(jsonSchema['format']).endsWith('v6')) delete jsonSchema['pattern'];
  },
} as const;

/** All named schemas, which refer to one another. */
export function namedSchemas(): Record<string, JsonSchema> {
  const registry = z.registry<{ id: string }>();
  for (const [schema, id] of NAMES) registry.add(schema, { id });
  const { schemas } = z.toJSONSchema(registry, { ...OPTIONS, uri: (id) => `${REF}${id}` });
  return Object.fromEntries(
    Object.entries(schemas)
      .filter(([name]) => name !== '__shared')
      .map(([name, schema]) => [name, bare(schema as JsonSchema)]),
  );
}

/** A schema of an operation: a reference where it has a name. */
export function schemaOf(schema: z.ZodType): JsonSchema {
  const name = NAMES.get(schema);
  if (name !== undefined) return { $ref: REF + name };
  const list = schema instanceof z.ZodObject ? (schema.shape['data'] as z.ZodType | undefined) : undefined;
  const row = list instanceof z.ZodArray ? NAMES.get(list.element as z.ZodType) : undefined;
  const described = bare(z.toJSONSchema(schema, OPTIONS));
  if (row === undefined) return described;
  const { properties } = described as { properties: JsonSchema };
  return { ...described, properties: { ...properties, data: { type: 'array', items: { $ref: REF + row } } } };
}

/** Without what only a document of its own has. */
function bare(schema: JsonSchema): JsonSchema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== '$schema' && name !== '$id'));
}
