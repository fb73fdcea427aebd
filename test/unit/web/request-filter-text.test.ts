import { describe, expect, it } from 'vitest';
import { readFilterText } from '../../../web/features/requests/filter-text.ts';

const keys = [
  { id: 'kkkkkkkk', name: 'ci nightly' },
  { id: 'llllllll', name: 'Laptop' },
];
const read = (text: string) => readFilterText(text, keys, [{ id: 'aaaaaaaa', name: 'Globex' }]);

describe('a typed filter', () => {
  it('accepts fields, and keys and accounts by name', () => {
    expect(read('status:429 key:"ci nightly" model:gpt-4o account:globex outcome:refused')).toEqual({
      filter: { status: 429, key: 'kkkkkkkk', model: 'gpt-4o', account: 'aaaaaaaa', outcome: 'refused' },
      attribution: {},
      problem: null,
    });
  });
  it('recognizes a status, outcome or model without a field', () => {
    expect(read('503').filter).toEqual({ status: 503 });
    expect(read('client_disconnected').filter).toEqual({ outcome: 'client_disconnected' });
    expect(read('llama-4').filter).toEqual({ model: 'llama-4' });
    expect(read('4xx /v1/messages').filter).toEqual({ status: '4xx', route: '/v1/messages' });
  });
  it('keeps end users, sessions and tags apart as typed, since they are looked up', () => {
    const { filter, attribution } = read('user:ada@example.com tag:"team: search" error:model_not_priced');
    expect(filter).toEqual({ error_code: 'model_not_priced' });
    expect(attribution).toEqual({ end_user: 'ada@example.com', tag: 'team: search' });
  });
  it('accepts ids that are not listed, which old requests may have', () =>
    expect(read('key:zzzzzzzz').filter).toEqual({ key: 'zzzzzzzz' }));
  it.each([
    ['colour:red', 'colour'],
    ['key:unknown', 'unknown'],
    ['status:9', '9'],
    ['outcome:odd', 'odd'],
  ])('reports invalid input: %s', (text, word) => {
    const { filter, problem } = read(text);
    expect(filter).toEqual({});
    expect(problem).toContain(`“${word}”`);
  });
});
