import type { SinkKind } from '#db/spend/sink-kinds.ts';
import type { METERED_FIGURES, SinkConfigInput } from '#db/spend/sink-config.ts';

/** The form of a sink, and its configuration as the API takes it. Pure. */

export type SinkForm = {
  kind: SinkKind;
  url: string;
  /** API key of Lago or Stripe, bearer token of CloudEvents. */
  secret: string;
  /** The `type` of CloudEvents, Lago's metric, Stripe's event name. */
  code: string;
  figure: (typeof METERED_FIGURES)[number];
  /** Lines such as `Acme = cus_123`. */
  ids: string;
  brokers: string;
  topic: string;
  tls: boolean;
  certificates: string;
  mechanism: '' | 'plain' | 'scram-sha-256' | 'scram-sha-512';
  username: string;
  password: string;
  isPrivate: boolean;
};

/** The properties of the fields of a kind. */
export type ConfigFieldsProps = {
  form: SinkForm;
  onChange: (part: Partial<SinkForm>) => void;
  error: unknown;
};

/** The addresses of services that most use. */
const ADDRESSES: Partial<Record<SinkKind, string>> = {
  lago: 'https://api.getlago.com',
  stripe: 'https://api.stripe.com',
};

export const newForm = (kind: SinkKind): SinkForm => ({
  kind,
  url: ADDRESSES[kind] ?? '',
  secret: '',
  code: '',
  figure: 'cost_nanousd',
  ids: '',
  brokers: '',
  topic: '',
  tls: true,
  certificates: '',
  mechanism: '',
  username: '',
  password: '',
  isPrivate: false,
});

/** @param ids of the other system by account, as {@link readIds} finds them. */
export function toConfig(form: SinkForm, ids: Record<string, string>): SinkConfigInput {
  const { kind, figure: value, topic, tls, mechanism, username, password } = form;
  const [url, secret, code] = [form.url.trim(), form.secret.trim(), form.code.trim()];
  const allow_private = form.isPrivate;
  switch (kind) {
    case 'webhook':
      return { kind, url, allow_private };
    case 'cloudevents':
      return {
        ...{ kind, url, allow_private },
        ...(secret === '' ? {} : { token: secret }),
        ...(code === '' ? {} : { event_type: code }),
      };
    case 'lago': {
      const subscriptions = form.ids.trim() === '' ? {} : { subscriptions: ids };
      return { kind, url, api_key: secret, code, ...subscriptions, allow_private };
    }
    case 'stripe':
      return { kind, url, api_key: secret, event_name: code, value, customers: ids, allow_private };
    case 'kafka':
      return {
        ...{ kind, topic: topic.trim(), tls, allow_private },
        brokers: form.brokers.split(/[\s,]+/).filter((each) => each !== ''),
        ...(tls && form.certificates.trim() !== '' ? { ca: form.certificates } : {}),
        ...(mechanism === '' ? {} : { sasl: { mechanism, username, password } }),
      };
  }
}

/**
 * Reads lines such as `Acme = cus_123`.
 * @returns the ids by account id, and the first line that can't be read or names no account.
 */
export function readIds(
  text: string,
  accounts: readonly { id: string; name: string }[],
): { ids: Record<string, string>; problem: string | null } {
  const ids: Record<string, string> = {};
  for (const line of text.split('\n').map((each) => each.trim())) {
    if (line === '') continue;
    const at = line.lastIndexOf('=');
    const [name, id] = [line.slice(0, Math.max(0, at)).trim(), line.slice(at + 1).trim()];
    if (at < 0 || name === '' || id === '') return { ids, problem: `“${line}” is not “account = ID”.` };
    const account = accounts.find((each) => each.name === name || each.id === name);
    if (account === undefined) return { ids, problem: `There is no account “${name}”.` };
    ids[account.id] = id;
  }
  return { ids, problem: null };
}
