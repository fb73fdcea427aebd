import { docsPage, escapeHtml } from '#server/contract/docs-site/docs-page.ts';
import type { OpenApi, Operation } from '#server/openapi/document.ts';
import type { JsonSchema } from '#server/openapi/schemas.ts';

/** The reference of the API as a page, from its OpenAPI document. Pure. */

export function referencePage({ info, paths, components }: OpenApi): string {
  const operations = Object.entries(paths).flatMap(([path, item]) =>
    Object.entries(item).map(([method, operation]) => ({ path, method, operation })),
  );
  const groups = [...Map.groupBy(operations, ({ operation }) => operation.tags[0] ?? '')].toSorted(
    ([one], [other]) => (one < other ? -1 : 1),
  );
  const navigation = groups.map(([tag]) => `<li><a href="#${tag}">${escapeHtml(tag)}</a></li>`).join('');
  const body = groups
    .map(
      ([tag, members]) =>
        `<h2 id="${tag}">${escapeHtml(tag)}</h2>${members
          .map(({ path, method, operation }) => operationHtml(path, method, operation))
          .join('')}`,
    )
    .join('');
  const schemas = Object.entries(components.schemas)
    .map(
      ([name, schema]) =>
        `<details><summary>${name}</summary><div id="schema-${name}">${schemaHtml(schema)}</div></details>`,
    )
    .join('');
  return docsPage({
    title: 'API reference',
    navigationLabel: 'Operations',
    navigation: `<h2>Operations</h2><ul>${navigation}<li><a href="#schemas">schemas</a></li></ul>`,
    aside: '',
    main:
      `<h1>API reference</h1><p>${escapeHtml(String(info['description']))}</p>` +
      '<p>For programs: <a href="/api/v1/openapi.json">openapi.json</a>. Management keys, retries and ' +
      'concurrent changes: <a href="management-api.html">Management API</a>.</p>' +
      `${body}<h2 id="schemas">Schemas</h2>${schemas}`,
  });
}

function operationHtml(path: string, method: string, operation: Operation): string {
  const { operationId, summary, security, parameters = [], requestBody, responses } = operation;
  const callers = security.flatMap((each) => {
    if ('management_key' in each) return `management key with <code>${each['management_key']?.[0]}</code>`;
    if ('api_key' in each) return 'API key';
    return 'session' in each ? 'signed-in member' : 'public';
  });
  const rows = parameters.map(
    (each) =>
      `<tr><td><code>${escapeHtml(String(each['name']))}</code></td><td>${String(each['in'])}</td>` +
      `<td>${each['required'] === true ? 'yes' : 'no'}</td>` +
      `<td>${typeHtml(each['schema'] as JsonSchema)}</td></tr>`,
  );
  const body = contentHtml('Body', requestBody);
  const replies = Object.entries(responses)
    .filter(([status]) => status.startsWith('2'))
    .map(([status, response]) => contentHtml(`Reply ${status}`, response));
  return (
    `<details id="${operationId}"><summary><span class="method">${method}</span> ` +
    `<code>${escapeHtml(path)}</code> <span>${escapeHtml(summary)}</span></summary>` +
    `<div><p>For: ${callers.join(', ')}.</p>` +
    (rows.length === 0 ? '' : tableHtml(['parameter', 'in', 'required', 'type'], rows)) +
    `${body}${replies.join('')}</div></details>`
  );
}

function contentHtml(title: string, part: JsonSchema | undefined): string {
  const content = (part?.['content'] ?? {}) as Record<string, { schema: JsonSchema }>;
  return Object.entries(content)
    .map(([type, { schema }]) => `<h3>${title} <code>${type}</code></h3>${schemaHtml(schema)}`)
    .join('');
}

/** The members of an object, or the type of anything else. */
function schemaHtml(schema: JsonSchema): string {
  const properties = Object.entries((schema['properties'] ?? {}) as Record<string, JsonSchema>);
  if (properties.length === 0) return `<p>${typeHtml(schema)}</p>`;
  const required = (schema['required'] ?? []) as string[];
  const rows = properties.map(
    ([name, each]) =>
      `<tr><td><code>${escapeHtml(name)}</code></td>` +
      `<td>${required.includes(name) ? 'yes' : 'no'}</td><td>${typeHtml(each)}</td></tr>`,
  );
  return tableHtml(['field', 'required', 'type'], rows);
}

/** What scrolls must be reachable by the keyboard. */
const tableHtml = (columns: readonly string[], rows: readonly string[]): string =>
  `<div class="table" tabindex="0"><table><thead><tr>${columns.map((each) => `<th>${each}</th>`).join('')}` +
  `</tr></thead><tbody>${rows.join('')}</tbody></table></div>`;

const REF = '#/components/schemas/';
const CHOICES_SHOWN = 8;
const DEPTH_MAX = 3;
const PATTERN_SHOWN = 60;

function typeHtml(schema: JsonSchema, depth = 0): string {
  const part = (each: unknown): string => typeHtml(each as JsonSchema, depth + 1);
  const { $ref, type, const: constant, enum: names, anyOf, oneOf, items, pattern } = schema;
  if (typeof $ref === 'string') {
    const name = escapeHtml($ref.slice(REF.length));
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (constant !== undefined) return code(JSON.stringify(constant));
  if (Array.isArray(names)) {
    const shown = (names as unknown[]).slice(0, CHOICES_SHOWN).map((each) => code(JSON.stringify(each)));
    return `${shown.join(', ')}${names.length > CHOICES_SHOWN ? `, … (${names.length})` : ''}`;
  }
  const choices = (anyOf ?? oneOf) as unknown[] | undefined;
  if (choices) return depth > DEPTH_MAX ? '…' : choices.map(part).join(' or ');
  if (type === 'array')
    return `list of ${items === undefined || depth > DEPTH_MAX ? 'anything' : part(items)}`;
  const name = Array.isArray(type)
    ? (type as string[]).join(' or ')
    : typeof type === 'string'
      ? type
      : 'anything';
  const shown = typeof pattern === 'string' && pattern.length < PATTERN_SHOWN ? ` ${code(pattern)}` : '';
  return escapeHtml(name) + shown;
}

const code = (text: string): string => `<code>${escapeHtml(text)}</code>`;
