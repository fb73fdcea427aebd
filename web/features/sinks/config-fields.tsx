import type { ComponentProps } from 'react';
import { SelectField, TextArea, TextField } from '../../ui/form/field.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { fieldError } from '../../ui/problem.tsx';
import { KafkaFields } from './kafka-fields.tsx';
import type { ConfigFieldsProps, SinkForm } from './sink-form.ts';
import { FIGURES } from './sink-words.ts';

/** The fields of a kind of sink. */
export function ConfigFields({
  idsProblem,
  ...rest
}: ConfigFieldsProps & { /** Of the ids by account. */ idsProblem: string | null }) {
  const { form, onChange, error } = rest;
  const url = (label: string, placeholder: string): ComponentProps<typeof TextField> => ({
    label,
    placeholder,
    type: 'url',
    required: true,
    maxLength: 2_000,
    autoComplete: 'off',
    spellCheck: false,
    value: form.url,
    onChange: ({ target }) => onChange({ url: target.value }),
    error: fieldError(error, 'config.url'),
  });
  const secret = (label: string): ComponentProps<typeof TextField> => ({
    label,
    type: 'password',
    autoComplete: 'new-password',
    maxLength: 10_000,
    value: form.secret,
    onChange: ({ target }) => onChange({ secret: target.value }),
    hint: 'Stored encrypted and never shown.',
  });
  const code = (label: string, placeholder: string): ComponentProps<typeof TextField> => ({
    label,
    placeholder,
    maxLength: 200,
    autoComplete: 'off',
    spellCheck: false,
    value: form.code,
    onChange: ({ target }) => onChange({ code: target.value }),
  });
  const ids = (label: string, placeholder: string, hint: string): ComponentProps<typeof TextArea> => ({
    label,
    placeholder,
    hint,
    rows: 4,
    spellCheck: false,
    className: 'font-mono',
    value: form.ids,
    onChange: ({ target }) => onChange({ ids: target.value }),
    error: idsProblem,
  });
  switch (form.kind) {
    case 'webhook':
      return (
        <TextField
          {...url('Endpoint URL', 'https://billing.example.com/spend')}
          hint="Receives signed batches. Stored encrypted and never shown."
        />
      );
    case 'cloudevents':
      return (
        <>
          <TextField
            {...url('Endpoint URL', 'https://openmeter.cloud/api/v1/events')}
            hint="Receives batches of CloudEvents. Stored encrypted and never shown."
          />
          <TextField {...secret('Token (optional)')} hint="Sent as a bearer token. Stored encrypted." />
          <TextField
            {...code('Event type (optional)', 'daybook.request.settled')}
            hint="The type of all events; by default “daybook.” and the type in the log."
          />
        </>
      );
    case 'lago':
      return (
        <>
          <TextField {...url('Lago address', 'https://api.getlago.com')} />
          <TextField {...secret('API key')} required />
          <TextField
            {...code('Billable metric', 'llm_usage')}
            required
            hint="The code of the metric in Lago."
          />
          <TextArea
            {...ids(
              'Subscriptions (optional)',
              'Acme = sub_1234567890',
              'An account and the external ID of its subscription on each line; others are not sent. ' +
                'Empty: all accounts, with the account’s ID as the external ID.',
            )}
          />
        </>
      );
    case 'stripe':
      return (
        <>
          <TextField {...url('Stripe address', 'https://api.stripe.com')} />
          <TextField {...secret('API key')} required />
          <TextField {...code('Event name', 'llm_usage')} required hint="Of the meter, which must sum." />
          <SelectField
            label="Figure"
            value={form.figure}
            onChange={({ target }) => onChange({ figure: target.value as SinkForm['figure'] })}
          >
            <WordOptions words={FIGURES} />
          </SelectField>
          <TextArea
            {...ids(
              'Customers',
              'Acme = cus_1234567890',
              'An account and its Stripe customer on each line. Other accounts are not sent.',
            )}
            required
          />
        </>
      );
    case 'kafka':
      return <KafkaFields {...rest} />;
  }
}
