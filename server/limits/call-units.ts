import type { Unit, UnitCounts } from '#db/pricing/parts.ts';
import { MEDIA_MS_MAX, TOOL_CALLS_TYPICAL } from '#server/limits/bounds.ts';
import { searchesByItself } from '#server/limits/searching-models.ts';
import { asRecord, count } from '#server/wire/counts.ts';
import { valueOf } from '#server/wire/json.ts';
import type { ParsedRequest, ScannedRequest } from '#server/wire/request-parser.ts';

/**
 * The units with a price that a request can cause, for the reservation of its cost. A hard limit rejects
 * those that nothing bounds: see unbounded-request.ts. Pure.
 */

/** What a request asks for. */
type AskedUnits = Pick<ParsedRequest, 'model' | 'choices' | 'makesImages' | 'scanned'>;

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
/** One of them is in every list with such a tool. Most lists have none, and are long. */
const MARKERS = ['_search', '"image_generation', '"code_'];
/** The members that ask for searches, with the one that bounds them. */
const SEARCHES = { web_search_options: null, plugins: null, search_parameters: 'max_search_results' };

/** @param priced the units that have a price; others may be absent. */
export function unitsOf(
  body: Buffer,
  { model, choices, makesImages, scanned }: AskedUnits,
  priced: readonly Unit[],
): UnitCounts {
  if (priced.length === 0) return NO_UNITS;
  const units: { [Name in Unit]?: number } = {};
  if (priced.includes('characters')) units.characters = body.length;
  if (priced.includes('media_hour')) units.media_hour = mediaMs(body.length, scanned.parts);
  if (!priced.some((unit) => unit !== 'characters' && unit !== 'media_hour')) return units;
  addTools(units, body, scanned);
  if (makesImages) units.image = (units.image ?? 0) + 1;
  if (searchesByItself(model)) units.web_search = (units.web_search ?? 0) + TOOL_CALLS_TYPICAL;
  for (const unit of ['web_search', 'image', 'tool_call'] as const)
    if (units[unit] !== undefined) units[unit] *= choices;
  return units;
}

/** A byte of base64 is more than a millisecond, even at the lowest bit rates. */
function mediaMs(bodyBytes: number, { recordings, files }: ScannedRequest['parts']): number {
  const parts = recordings + files;
  return parts === 0 ? 0 : parts * MEDIA_MS_MAX + bodyBytes;
}

function addTools(units: { [Name in Unit]?: number }, body: Buffer, { members }: ScannedRequest): void {
  const value = (name: string): unknown => {
    const span = members.get(name);
    return span && valueOf(body, span);
  };
  const list = members.get('tools');
  const listed = list && body.subarray(list.start, list.end);
  const most = count(value('max_tool_calls')) || TOOL_CALLS_TYPICAL;
  const tools = listed && MARKERS.some((marker) => listed.includes(marker, 0, 'latin1')) && value('tools');
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
