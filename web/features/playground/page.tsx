import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type FormEvent, type KeyboardEvent, useState } from 'react';
import type { KeyRow } from '#server/contract/keys.ts';
import type { ModelRow } from '#server/contract/models.ts';
import { isActive, keysQuery } from '../../lib/api/names.ts';
import { modelsQuery } from '../../lib/api/queries.ts';
import { useMe } from '../../lib/api/session.ts';
import { Button, buttonClass } from '../../ui/button.tsx';
import { SelectField, TextArea, TextField } from '../../ui/form/field.tsx';
import { NamedOptions } from '../../ui/form/options.tsx';
import { PageHead } from '../../ui/layout/page-head.tsx';
import { Card, Empty, Waiting } from '../../ui/layout/parts.tsx';
import { Problem } from '../../ui/problem.tsx';
import { type Asking, useConversation } from './conversation.ts';
import { Messages } from './messages.tsx';
import { useFigures } from './use-figures.ts';

/** A chat with the models available to the account's keys. */
export function PlaygroundPage() {
  const { account } = useMe();
  const keys = useQuery(keysQuery);
  const models = useQuery(modelsQuery);
  const error = keys.error ?? models.error;
  const usableKeys = keys.data?.filter((key) => key.account === account.id && isActive(key));
  return (
    <>
      <PageHead
        title="Playground"
        about="Try models with one of your keys. Requests are recorded, limited and charged as usual."
      />
      {error ? (
        <Problem
          error={error}
          title="Couldn’t load keys and models"
          onRetry={() => {
            void keys.refetch();
            void models.refetch();
          }}
        />
      ) : usableKeys === undefined || models.data === undefined ? (
        <Waiting height="h-[32rem]" />
      ) : usableKeys.length === 0 ? (
        <Card>
          <Empty icon="key" title="No active keys">
            <p>Create a key to use the playground.</p>
            <Link to="/keys" className={buttonClass('primary', 'mt-3')}>
              Create key{' '}
            </Link>
          </Empty>
        </Card>
      ) : (
        <Chat keys={usableKeys} models={models.data} />
      )}
    </>
  );
}

/** Whether a model name matches a key's pattern, with `*` as wildcard. */
const fits = (pattern: string, name: string): boolean =>
  new RegExp(
    `^${pattern
      .split('*')
      .map((part) => part.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`))
      .join('.*')}$`,
  ).test(name);
const mayUse = ({ terms }: KeyRow, { id }: ModelRow): boolean =>
  terms?.models?.some((pattern) => fits(pattern, id)) ?? true;
const numberIn = (text: string): number | null =>
  text.trim() === '' || Number.isNaN(Number(text)) ? null : Number(text);

function Chat({ keys, models }: { keys: readonly KeyRow[]; models: readonly ModelRow[] }) {
  const [chosen, setChosen] = useState({ key: '', model: '', system: '', temperature: '', maxTokens: '' });
  const [text, setText] = useState('');
  const { account } = useMe();
  const { turns, isRunning, say, retry, stop, clear } = useConversation();
  const key = keys.find(({ id }) => id === chosen.key) ?? keys[0];
  const usable = key ? models.filter((model) => mayUse(key, model)) : [];
  const model = usable.find(({ id }) => id === chosen.model)?.id ?? usable[0]?.id ?? chosen.model;
  const figures = useFigures(
    account.id,
    turns.flatMap(({ request }) => (request == null ? [] : [request])),
  );
  const choose = (part: Partial<typeof chosen>): void => setChosen({ ...chosen, ...part });
  const asking: Asking | null =
    key && model !== ''
      ? {
          key: key.id,
          model,
          system: chosen.system,
          temperature: numberIn(chosen.temperature),
          maxTokens: numberIn(chosen.maxTokens),
        }
      : null;

  const send = (event: FormEvent<HTMLFormElement>): void => {
    event.preventDefault();
    if (asking === null || isRunning || text.trim() === '') return;
    say(text, asking);
    setText('');
  };
  const onKeyDown = (event: KeyboardEvent<HTMLTextAreaElement>): void => {
    if (event.key !== 'Enter' || event.shiftKey || event.nativeEvent.isComposing) return;
    event.preventDefault();
    event.currentTarget.form?.requestSubmit();
  };

  return (
    <form onSubmit={send} className="grid items-start gap-4 lg:grid-cols-[minmax(0,1fr)_18rem]">
      <Card className="lg:sticky lg:top-7 lg:order-2" title="Request">
        <div className="flex flex-col gap-3">
          <SelectField label="Key" value={key?.id} onChange={({ target }) => choose({ key: target.value })}>
            <NamedOptions rows={keys} />
          </SelectField>
          {models.length === 0 ? (
            <TextField
              label="Model"
              hint="The model list is unavailable. You can still enter a name."
              value={chosen.model}
              required
              maxLength={256}
              onChange={({ target }) => choose({ model: target.value })}
            />
          ) : (
            <SelectField
              label="Model"
              value={model}
              onChange={({ target }) => choose({ model: target.value })}
              error={usable.length === 0 ? 'This key can’t use any of the models.' : null}
            >
              {usable.map(({ id }) => (
                <option key={id} value={id}>
                  {id}
                </option>
              ))}
            </SelectField>
          )}
          <details onInvalidCapture={({ currentTarget }) => (currentTarget.open = true)}>
            <summary className="text-muted hover:text-ink">Advanced options</summary>
            <div className="mt-3 flex flex-col gap-3">
              <TextArea
                label="System prompt"
                rows={3}
                value={chosen.system}
                onChange={({ target }) => choose({ system: target.value })}
                placeholder="None"
              />
              <div className="grid grid-cols-2 gap-3">
                <TextField
                  label="Temperature"
                  type="number"
                  min={0}
                  max={2}
                  step="any"
                  inputMode="decimal"
                  value={chosen.temperature}
                  onChange={({ target }) => choose({ temperature: target.value })}
                  placeholder="Default"
                />
                <TextField
                  label="Max tokens"
                  type="number"
                  min={1}
                  max={1_000_000}
                  step={1}
                  inputMode="numeric"
                  value={chosen.maxTokens}
                  onChange={({ target }) => choose({ maxTokens: target.value })}
                  placeholder="Default"
                />
              </div>
            </div>
          </details>
        </div>
      </Card>
      <Card flush>
        <div
          className={[
            'flex min-h-[max(18rem,calc(100dvh-26rem))] flex-col p-4',
            turns.length === 0 ? 'justify-center' : 'justify-end',
          ].join(' ')}
        >
          {turns.length === 0 ? (
            <Empty icon="chat" title="Start a conversation">
              <p>The conversation is not stored and is cleared when you leave this page.</p>
            </Empty>
          ) : (
            <Messages
              messages={turns}
              figures={figures}
              onRetry={asking === null ? null : () => retry(asking)}
            />
          )}
        </div>
        <div className="flex flex-col gap-2 border-t border-line p-4">
          <textarea
            aria-label="Message"
            rows={3}
            value={text}
            maxLength={200_000}
            onChange={({ target }) => setText(target.value)}
            onKeyDown={onKeyDown}
            placeholder="Write a message"
            className={[
              'w-full resize-y rounded-md border border-line-strong bg-surface px-3 py-2 text-base',
              'placeholder:text-muted',
            ].join(' ')}
          />
          <div className="flex flex-wrap items-center justify-between gap-2">
            <p className="text-xs text-muted">Enter to send, Shift + Enter for a new line</p>
            <div className="flex gap-2">
              {turns.length > 0 && (
                <Button look="quiet" onClick={clear}>
                  New chat
                </Button>
              )}
              {isRunning ? (
                <Button icon="pause" className="min-w-24" onClick={stop}>
                  Stop
                </Button>
              ) : (
                <Button
                  type="submit"
                  look="primary"
                  icon="arrow"
                  className="min-w-24"
                  disabled={asking === null || text.trim() === ''}
                >
                  Send
                </Button>
              )}
            </div>
          </div>
        </div>
      </Card>
    </form>
  );
}
