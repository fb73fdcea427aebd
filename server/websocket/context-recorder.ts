import { scanObject, valueOf } from '#server/wire/json.ts';
import { joined } from '#server/websocket/client-message.ts';

/** A response that later ones can continue: its id, and the items of its output. */
export type RecordedResponse = { id: string; output: Buffer };

const ITEM_DONE = /"type": ?"response\.output_item\.done"/;
const ENDED = /"type": ?"response\.(?:completed|incomplete)"/;

/**
 * Collects the output of a response that its provider doesn't store, as the input of later ones repeats it.
 * Pure.
 */
export class ContextRecorder {
  readonly #bytesMax: number;
  #items: Buffer[] = [];
  #bytes = 0;
  #recorded: RecordedResponse | null = null;

  /** @param bytesMax of the output; of a longer one nothing is kept. */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  /** Set when the response has ended, unless its provider stores it. */
  get recorded(): RecordedResponse | null {
    return this.#recorded;
  }

  /** @param event as latin-1 text of its bytes. */
  take(event: string): void {
    if (ITEM_DONE.test(event)) this.#add(event);
    else if (ENDED.test(event)) this.#end(event);
  }

  #add(event: string): void {
    const item = membersOf(event, ['type', 'item'], 'response.output_item.done')?.get('item');
    if (!item || isUnreadable(item)) return;
    this.#bytes += item.length;
    this.#items.push(item);
    if (this.#bytes > this.#bytesMax) this.#items = [];
  }

  #end(event: string): void {
    const response = membersOf(event, ['type', 'response'], /^response\.(?:completed|incomplete)$/)?.get(
      'response',
    );
    const members = response && scanned(response, ['id', 'store', 'output']);
    const id = members?.get('id');
    const store = members?.get('store');
    if (!id || store?.toString() === 'true' || this.#bytes > this.#bytesMax) return;
    const output = members?.get('output');
    // Some upstreams repeat the output in the last event alone.
    const whole = output?.[0] === OPEN_BRACKET ? output.subarray(1, -1) : null;
    this.#recorded = {
      id: String(valueOf(id, { start: 0, end: id.length })),
      output: joined(this.#items.length > 0 ? this.#items : [whole]),
    };
    this.#items = [];
  }
}

const OPEN_BRACKET = 0x5b;

/** Reasoning without its encrypted content can be read by the provider that stores it alone. */
function isUnreadable(item: Buffer): boolean {
  const members = scanned(item, ['type', 'encrypted_content']);
  const type = members?.get('type')?.toString();
  const content = members?.get('encrypted_content')?.toString() ?? 'null';
  return type === '"reasoning"' && content === 'null';
}

function membersOf(
  event: string,
  names: readonly string[],
  type: string | RegExp,
): ReadonlyMap<string, Buffer> | null {
  const members = scanned(Buffer.from(event, 'latin1'), names);
  const written = members?.get('type')?.toString().slice(1, -1);
  const isIt = written !== undefined && (typeof type === 'string' ? written === type : type.test(written));
  return isIt ? members : null;
}

/** The values of members of an object; null: the bytes are no object of JSON. */
function scanned(bytes: Buffer, names: readonly string[]): ReadonlyMap<string, Buffer> | null {
  try {
    const { members } = scanObject(bytes, names);
    return new Map([...members].map(([name, { start, end }]) => [name, bytes.subarray(start, end)]));
  } catch {
    return null;
  }
}
