import { Checkbox, SelectField, TextArea, TextField } from '../../ui/form/field.tsx';
import { WordOptions } from '../../ui/form/options.tsx';
import { fieldError } from '../../ui/problem.tsx';
import type { ConfigFieldsProps, SinkForm } from './sink-form.ts';

const MECHANISMS = {
  '': 'None',
  plain: 'PLAIN',
  'scram-sha-256': 'SCRAM-SHA-256',
  'scram-sha-512': 'SCRAM-SHA-512',
} as const;

/** The fields of a Kafka topic. */
export function KafkaFields({ form, onChange, error }: ConfigFieldsProps) {
  return (
    <>
      <TextField
        label="Brokers"
        required
        placeholder="kafka-1:9093, kafka-2:9093"
        autoComplete="off"
        spellCheck={false}
        value={form.brokers}
        onChange={({ target }) => onChange({ brokers: target.value })}
        hint="Some of the cluster’s brokers, as host:port."
        error={fieldError(error, 'config.brokers')}
      />
      <TextField
        label="Topic"
        required
        maxLength={249}
        pattern="[A-Za-z0-9._\-]+"
        placeholder="spend"
        autoComplete="off"
        spellCheck={false}
        value={form.topic}
        onChange={({ target }) => onChange({ topic: target.value })}
        hint="Must exist."
        error={fieldError(error, 'config.topic')}
      />
      <Checkbox
        label="Use TLS"
        checked={form.tls}
        onChange={({ target }) => onChange({ tls: target.checked })}
      />
      {form.tls && (
        <TextArea
          label="Certificates to trust (optional)"
          rows={3}
          maxLength={60_000}
          spellCheck={false}
          className="font-mono"
          placeholder="-----BEGIN CERTIFICATE-----"
          value={form.certificates}
          onChange={({ target }) => onChange({ certificates: target.value })}
          hint="PEM, in place of the public authorities."
        />
      )}
      <SelectField
        label="Authentication (SASL)"
        value={form.mechanism}
        onChange={({ target }) => onChange({ mechanism: target.value as SinkForm['mechanism'] })}
        hint={form.mechanism === 'plain' && !form.tls ? 'PLAIN needs TLS.' : undefined}
      >
        <WordOptions words={MECHANISMS} />
      </SelectField>
      {form.mechanism !== '' && (
        <div className="grid gap-4 sm:grid-cols-2">
          <TextField
            label="User name"
            required
            maxLength={300}
            autoComplete="off"
            spellCheck={false}
            value={form.username}
            onChange={({ target }) => onChange({ username: target.value })}
          />
          <TextField
            label="Password"
            type="password"
            required
            maxLength={10_000}
            autoComplete="new-password"
            value={form.password}
            onChange={({ target }) => onChange({ password: target.value })}
          />
        </div>
      )}
    </>
  );
}
