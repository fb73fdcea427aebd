import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Key } from '#db/fold/key.ts';
import { bodyOf, type CreateMessage, readClientMessage } from '#server/websocket/client-message.ts';
import { Contexts } from '#server/websocket/contexts.ts';
import { Conversations } from '#server/websocket/conversations.ts';
import { cutMembers } from '#server/wire/cut-members.ts';

/** The conversation of a connection, from its messages to the bodies that an upstream receives. */

function read(members: object): CreateMessage {
  const message = readClientMessage(Buffer.from(JSON.stringify({ type: 'response.create', ...members })));
  if (message.type !== 'create') throw new Error(JSON.stringify(message));
  return message;
}
const parsed = (bytes: Buffer): Record<string, unknown> =>
  JSON.parse(bytes.toString()) as Record<string, unknown>;

describe('the body of a response', () => {
  test('has the members of its message, without those of the connection', () => {
    const body = { model: 'm', instructions: 'x', tools: [{ name: 'a' }], store: false, input: 'hi' };
    const message = read({ ...body, stream_id: 'a', generate: true, stream: false, background: false });
    expect(message).toMatchObject({ streamId: 'a', isGenerated: true, previous: null });
    expect(parsed(bodyOf(message, null).bytes)).toEqual({ ...body, stream: true });
  });

  test('keeps members byte for byte', () => {
    const written = '{ "a" : 12345678901234567890 , "type":"response.create", "m" :-0.0e5,"input":[1 , 2]}';
    const message = readClientMessage(Buffer.from(written)) as CreateMessage;
    expect(bodyOf(message, null).bytes.toString()).toBe(
      '{"a" : 12345678901234567890,"m" :-0.0e5,"stream":true,"input":[1 , 2]}',
    );
  });

  test('names the response that its provider has', () => {
    const { bytes } = bodyOf(read({ model: 'm', previous_response_id: 'resp_1', input: [] }), null);
    expect(parsed(bytes)).toEqual({ model: 'm', stream: true, previous_response_id: 'resp_1', input: [] });
  });

  test('has the items before it in place of the response that it continues', () => {
    const { bytes, items } = bodyOf(
      read({ model: 'm', previous_response_id: 'resp_1', input: 'two' }),
      Buffer.from('{"role":"user","content":"one"},{"type":"message"}'),
    );
    const input = [
      { role: 'user', content: 'one' },
      { type: 'message' },
      { type: 'message', role: 'user', content: 'two' },
    ];
    expect(parsed(bytes)).toEqual({ model: 'm', stream: true, input });
    expect(JSON.parse(`[${items.toString()}]`)).toEqual(input);
  });
});

test('members are cut out of any object, and the rest stays as it is', () => {
  const names = ['cut', 'also'];
  const object = fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.string()), fc.jsonValue());
  fc.assert(
    fc.property(object, fc.constantFrom(undefined, 1), (value, indent) => {
      const { values, rest } = cutMembers(Buffer.from(JSON.stringify(value, null, indent)), names);
      const kept = JSON.parse(`{${rest.map(String).join(',')}}`) as object;
      const cut = Object.fromEntries(
        [...values].map(([name, bytes]) => [name, JSON.parse(bytes.toString())]),
      );
      expect({ ...kept, ...cut }).toEqual(JSON.parse(JSON.stringify(value)));
      expect(Object.keys(kept).some((name) => names.includes(name))).toBe(false);
    }),
  );
});

describe('conversations of a connection', () => {
  const key = { id: 'key', account: 'account' } as Key;
  const relay = { maxBodyBytes: 1_000, routeBack: { find: () => Promise.resolve(null) } };
  const open = (contexts = new Contexts({ bytes: 10_000, bytesPerOwner: 10_000 })) => ({
    contexts,
    conversations: new Conversations(contexts, relay as never, key),
  });

  type Turn = { message: object; id: string; items?: object[]; output?: object[]; store?: boolean };
  /** Plays a response of the provider. @returns the input that reached it. */
  async function play(
    conversations: Conversations,
    { message, id, items = [], output = items, store = false }: Turn,
  ): Promise<unknown> {
    const conversation = conversations.begin(read({ model: 'm', ...message }));
    const body = await conversation.open();
    const take = (event: object): void =>
      conversation.take(Buffer.from(JSON.stringify(event)).toString('latin1'));
    for (const [output_index, item] of items.entries())
      take({ type: 'response.output_item.done', output_index, item });
    take({ type: 'response.completed', response: { id, store, output } });
    conversation.end();
    return body instanceof Buffer ? parsed(body)['input'] : body;
  }
  const user = (content: string): object => ({ type: 'message', role: 'user', content });
  const reply = (text: string): object => ({ type: 'message', role: 'assistant', content: [{ text }] });

  test('a response is continued with all items before it, text in any script included', async () => {
    const { conversations } = open();
    await play(conversations, { message: { input: 'één' }, id: 'r1', items: [reply('日本')] });
    const input = await play(conversations, {
      message: { input: [user('two')], previous_response_id: 'r1' },
      id: 'r2',
      items: [reply('b')],
    });
    expect(input).toEqual([user('één'), reply('日本'), user('two')]);
    expect(
      await play(conversations, { message: { input: 'three', previous_response_id: 'r2' }, id: 'r3' }),
    ).toEqual([user('één'), reply('日本'), user('two'), reply('b'), user('three')]);
  });

  test('an output that only the last event has is kept', async () => {
    const { conversations } = open();
    await play(conversations, { message: { input: [] }, id: 'r1', items: [], output: [reply('a')] });
    expect(
      await play(conversations, { message: { input: [], previous_response_id: 'r1' }, id: 'r2' }),
    ).toEqual([reply('a')]);
  });

  test('reasoning that only its provider could read is dropped', async () => {
    const { conversations } = open();
    const sealed = { type: 'reasoning', id: 'rs_2', summary: [], encrypted_content: 'x' };
    const items = [{ type: 'reasoning', id: 'rs_1', summary: [] }, sealed, reply('a')];
    await play(conversations, { message: { input: [] }, id: 'r1', items });
    expect(
      await play(conversations, { message: { input: [], previous_response_id: 'r1' }, id: 'r2' }),
    ).toEqual([sealed, reply('a')]);
  });

  test('only the latest response of a stream is kept, and none that its provider stores', async () => {
    const { conversations, contexts } = open();
    for (const [id, stream_id] of [
      ['a1', 'a'],
      ['b1', 'b'],
      ['a2', 'a'],
    ])
      await play(conversations, { message: { input: 'x', stream_id }, id: id as string });
    await play(conversations, { message: { input: 'x' }, id: 's1', store: true });
    const found = async (id: string): Promise<boolean> =>
      Array.isArray(
        await play(conversations, { message: { previous_response_id: id, stream_id: 'z' }, id: 'z' }),
      );
    expect([await found('a1'), await found('b1'), await found('a2'), await found('s1')]).toEqual([
      false,
      true,
      true,
      false,
    ]);
    conversations.close();
    expect(contexts.bytes).toBe(0);
  });

  test('a response that fails can be sent again', async () => {
    const { conversations } = open();
    await play(conversations, { message: { input: 'one' }, id: 'r1', items: [reply('a')] });
    const failing = conversations.begin(read({ model: 'm', input: 'two', previous_response_id: 'r1' }));
    await failing.open();
    failing.end();
    expect(
      await play(conversations, { message: { input: 'two', previous_response_id: 'r1' }, id: 'r2' }),
    ).toEqual([user('one'), reply('a'), user('two')]);
  });

  test('a conversation above the limit of a body is an error', async () => {
    const { conversations } = open();
    await play(conversations, { message: { input: 'x'.repeat(600) }, id: 'r1' });
    const input = await play(conversations, {
      message: { input: 'y'.repeat(600), previous_response_id: 'r1' },
      id: 'r2',
    });
    expect(input).toMatchObject({ code: 'request_too_large', status: 413 });
  });

  test('a connection that closes before its conversation is open leaves nothing', async () => {
    const { conversations, contexts } = open();
    const conversation = conversations.begin(read({ model: 'm', input: 'one' }));
    const opening = conversation.open();
    conversation.end();
    conversations.close();
    await opening;
    expect(contexts.bytes).toBe(0);
  });
});

describe('the memory of conversations', () => {
  test('the least recently used are dropped, of the key that exceeds its part first', () => {
    const contexts = new Contexts({ bytes: 100, bytesPerOwner: 60 });
    const [first, second] = [contexts.add('a', Buffer.alloc(30)), contexts.add('a', Buffer.alloc(30))];
    const other = contexts.add('b', Buffer.alloc(30));
    contexts.used(first);
    contexts.add('a', Buffer.alloc(20));
    expect([first.items === null, second.items === null, other.items === null]).toEqual([false, true, false]);
    contexts.add('c', Buffer.alloc(50));
    expect([first.items === null, other.items === null, contexts.bytes]).toEqual([false, true, 100]);
  });

  test('one that is larger than the part of its key is not kept', () => {
    const contexts = new Contexts({ bytes: 100, bytesPerOwner: 60 });
    const large = contexts.add('a', Buffer.alloc(61));
    expect([large.items, contexts.bytes]).toEqual([null, 0]);
    contexts.replace(large, Buffer.alloc(10));
    contexts.drop(large);
    expect(contexts.bytes).toBe(0);
  });

  test('never holds more than its limits, whatever is added, replaced and dropped', () => {
    const step = fc.tuple(
      fc.constantFrom('a', 'b', 'c'),
      fc.nat(80),
      fc.constantFrom('add', 'replace', 'drop'),
    );
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const contexts = new Contexts({ bytes: 100, bytesPerOwner: 60 });
        const all = [contexts.add('a', Buffer.alloc(1))];
        for (const [owner, size, what] of steps) {
          const some = all[size % all.length] as (typeof all)[number];
          if (what === 'add') all.push(contexts.add(owner, Buffer.alloc(size)));
          else if (what === 'replace') contexts.replace(some, Buffer.alloc(size));
          else contexts.drop(some);
          const held = all.reduce((sum, { items }) => sum + (items?.length ?? 0), 0);
          expect(contexts.bytes).toBe(held);
          expect(held).toBeLessThanOrEqual(100);
          for (const each of ['a', 'b', 'c'])
            expect(
              all.reduce(
                (sum, context) => sum + (context.owner === each ? (context.items?.length ?? 0) : 0),
                0,
              ),
            ).toBeLessThanOrEqual(60);
        }
      }),
    );
  });
});
