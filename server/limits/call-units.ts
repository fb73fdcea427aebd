import type { Unit, UnitCounts } from '#db/pricing/parts.ts';
import { MEDIA_MS_MAX, TOOL_CALLS_TYPICAL } from '#server/limits/bounds.ts';
import { mediaParts } from '#server/limits/prompt-bound.ts';
import { searchesByItself } from '#server/limits/searching-models.ts';
import { asRecord, count } from '#server/wire/counts.ts';
import { scanObject, valueOf } from '#server/wire/json.ts';

/**
 * The units with a price that a request can cause, for the reservation of its cost. A hard limit rejects
 * those that nothing bounds: see unbounded-request.ts. Pure.
 */

const NO_UNITS: UnitCounts = {};

/** The units of the provider's own tools, by a part of their type. */
const TOOLS: readonly (readonly [string, Unit])[] = [
  ['web_search', 'web_search'],
  ['x_search', 'web_search'],
  ['image_generation', 'image'],
  ['file_search', 'tool_call'],
  ['document_search', 'tool_call'],
  ['collections_search', 'tool_call'],
  ['code_interpreter', 'tool_call'],
  ['code_execution', 'tool_call'],
];
/** One of them is in every body with such a tool, or with a member that asks for searches. */
const MARKERS = ['_search', 'search_', '"image_generation', '"code_', '"plugins"'];
const MEMBERS = ['tools', 'max_tool_calls', 'web_search_options', 'search_parameters', 'plugins'];
/** The members that ask for searches, with the one that bounds them. */
const SEARCHES = { web_search_options: null, plugins: null, search_parameters: 'max_search_results' };

/**
 * @param priced the units that have a price; others may be absent.
 * @param makesImages whether each choice is an image.
 */
export function unitsOf(
  body: Buffer,
  model: string,
  choices: number,
  priced: readonly Unit[],
  makesImages = false,
): UnitCounts {
  if (priced.length === 0) return NO_UNITS;
  const units: { [Name in Unit]?: number } = {};
  if (priced.includes('characters')) units.characters = body.length;
  if (priced.includes('media_hour')) units.media_hour = mediaMs(body);
  if (!priced.some((unit) => unit !== 'characters' && unit !== 'media_hour')) return units;
  if (MARKERS.some((marker) => body.includes(marker, 0, 'latin1'))) addTools(units, body);
  if (makesImages) units.image = (units.image ?? 0) + 1;
  if (searchesByItself(model)) units.web_search = (units.web_search ?? 0) + TOOL_CALLS_TYPICAL;
  for (const unit of ['web_search', 'image', 'tool_call'] as const)
    if (units[unit] !== undefined) units[unit] *= choices;
  return units;
}

/** A byte of base64 is more than a millisecond, even at the lowest bit rates. */
function mediaMs(body: Buffer): number {
  const parts = mediaParts(body);
  return parts === 0 ? 0 : parts * MEDIA_MS_MAX + body.length;
}

function addTools(units: { [Name in Unit]?: number }, body: Buffer): void {
  const { members } = scanObject(body, [], MEMBERS);
  const value = (name: string): unknown => {
    const span = members.get(name);
    return span && valueOf(body, span);
  };
  const most = count(value('max_tool_calls')) || TOOL_CALLS_TYPICAL;
  const tools = value('tools');
  for (const tool of Array.isArray(tools) ? tools.map(asRecord) : []) {
    const type = tool?.['type'];
    const unit = typeof type === 'string' && TOOLS.find(([part]) => type.includes(part))?.[1];
    if (unit) units[unit] = (units[unit] ?? 0) + (count(tool?.['max_uses']) || most);
  }
  for (const [name, bound] of Object.entries(SEARCHES)) {
    const asked = value(name) ?? null;
    if (asked === null) continue;
    const searches = (bound && count(asRecord(asked)?.[bound])) || TOOL_CALLS_TYPICAL;
    units.web_search = (units.web_search ?? 0) + searches;
  }
}
