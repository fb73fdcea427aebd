import { useQuery } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { Button } from '../../ui/button.tsx';
import { CommandLine } from '../../ui/command-line.tsx';
import { Dialog, DialogActions } from '../../ui/dialog/dialog.tsx';
import { SelectField, TextArea, TextField } from '../../ui/form/field.tsx';
import { Segments } from '../../ui/form/segments.tsx';
import { FormProblem } from '../../ui/problem.tsx';
import { type BillForm, newForm, requestOf } from './bill-form.ts';
import { FilesField } from './files-field.tsx';
import { upstreamNamesQuery } from './queries.ts';
import { TaskProgress } from './task-progress.tsx';
import { useTask } from './use-task.ts';

/** What the server accepts; larger bills are compared by the command line. */
const UPLOAD_BYTES_MAX = 8 * 1024 * 1024;

type FieldsProps = { form: BillForm; onChange: (change: Partial<BillForm>) => void };

/** Uploads or fetches a bill and compares it with the log. */
export function CompareBill({ onClose }: { onClose: () => void }) {
  const [form, setForm] = useState(() => newForm(new Date()));
  const navigate = useNavigate();
  const task = useTask(
    '/api/v1/reconciliations',
    ({ id }) => void navigate({ to: '/admin/reconciliation/report', search: { id } }),
  );
  const change = (more: Partial<BillForm>): void => setForm((before) => ({ ...before, ...more }));
  const bytes = form.files.reduce((sum, { size }) => sum + size, 0);
  const isTooLarge = form.source === 'files' && bytes > UPLOAD_BYTES_MAX;
  const isReady = form.source === 'api' ? form.upstream !== '' : form.files.length > 0 && !isTooLarge;
  return (
    <Dialog onClose={onClose} title="Compare bill" shape="side">
      <form
        className="flex flex-col gap-4"
        onSubmit={(event) => {
          event.preventDefault();
          void requestOf(form).then(task.run);
        }}
      >
        <fieldset disabled={task.isRunning} className="flex flex-col gap-4">
          <Segments
            label="Source"
            choices={[
              ['files', 'Upload files'],
              ['api', 'Fetch from billing API'],
            ]}
            chosen={form.source}
            onChoose={(source: BillForm['source']) => change({ source })}
          />
          {form.source === 'files' ? (
            <UploadFields form={form} onChange={change} />
          ) : (
            <FetchFields form={form} onChange={change} />
          )}
          {isTooLarge && (
            <div role="alert" className="flex flex-col gap-2">
              <p className="text-danger">Files of more than 8 MiB are compared by the command line:</p>
              <CommandLine command="npm run -s daybook -- reconcile compare FILE --format FORMAT" />
            </div>
          )}
          <Terms form={form} onChange={change} />
        </fieldset>
        <FormProblem error={task.error} />
        {task.isRunning && (
          <TaskProgress
            label={form.source === 'api' && task.of === 0 ? 'Fetching the bill' : 'Comparing'}
            unit="event"
            done={task.done}
            of={task.of}
            onCancel={task.cancel}
          />
        )}
        <p className="text-xs text-muted">
          The comparison runs beside calls, without delaying them, and stops when you close this dialog. Its
          report is stored, and its digest recorded in the audit log. No recorded figure is changed.
        </p>
        <DialogActions>
          <Button onClick={onClose}>Close</Button>
          <Button look="primary" type="submit" disabled={!isReady} busy={task.isRunning}>
            Compare
          </Button>
        </DialogActions>
      </form>
    </Dialog>
  );
}

function UploadFields({ form, onChange }: FieldsProps) {
  const formats = new Set(form.files.map(({ format }) => format));
  const isCsv = formats.has('csv');
  return (
    <>
      <FilesField files={form.files} onChange={(files) => onChange({ files })} />
      {(isCsv || formats.has('focus')) && (
        <TextField
          label="Provider"
          hint="Who issued the bill."
          value={form.provider}
          maxLength={100}
          onChange={({ target }) => onChange({ provider: target.value })}
          autoComplete="off"
        />
      )}
      {isCsv && (
        <TextField
          label="Time zone"
          hint="Where the days of the bill begin, such as Europe/Paris."
          value={form.timeZone}
          maxLength={100}
          onChange={({ target }) => onChange({ timeZone: target.value })}
          autoComplete="off"
          spellCheck={false}
        />
      )}
    </>
  );
}

function FetchFields({ form, onChange }: FieldsProps) {
  return (
    <>
      <UpstreamSelect
        label="Upstream"
        hint={
          <>
            Needs an admin key of the provider:{' '}
            <code className="font-mono">daybook credential add NAME --billing --label billing</code>
          </>
        }
        none="Choose an upstream"
        value={form.upstream}
        // Its bill has no calls of others.
        onChange={(upstream) => onChange({ upstream, only: upstream })}
      />
      <div className="grid grid-cols-2 gap-3">
        <TextField
          label="First day (UTC)"
          type="date"
          required
          value={form.since}
          onChange={({ target }) => onChange({ since: target.value })}
        />
        <TextField
          label="Until before (UTC)"
          type="date"
          required
          value={form.until}
          onChange={({ target }) => onChange({ until: target.value })}
        />
      </div>
    </>
  );
}

/** How names and amounts are compared. */
function Terms({ form, onChange }: FieldsProps) {
  const area = (name: 'models' | 'credentials' | 'rates', label: string, hint: string): ReactNode => (
    <TextArea
      label={label}
      hint={hint}
      rows={2}
      value={form[name]}
      onChange={({ target }) => onChange({ [name]: target.value })}
      spellCheck={false}
      className="font-mono"
    />
  );
  return (
    <details className="rounded-lg border border-line">
      <summary className="px-3 py-2 font-medium">Names, currencies and tolerance</summary>
      <div className="flex flex-col gap-3 border-t border-line p-3">
        <UpstreamSelect
          label="Calls of"
          none="All upstreams"
          value={form.only}
          onChange={(only) => onChange({ only })}
        />
        {area('credentials', 'Credentials', 'One per line: name on the bill = id or label here')}
        {area('models', 'Models', 'One per line: name on the bill = name in the log')}
        {area('rates', 'Exchange rates', 'One per line: EUR = 1.0837 dollars')}
        <div className="grid grid-cols-2 gap-3">
          <TextField
            label="Tolerance (US dollars)"
            hint="Differences up to the larger of both are marked."
            inputMode="decimal"
            pattern="\d{1,3}(\.\d{1,9})?"
            value={form.toleranceDollars}
            onChange={({ target }) => onChange({ toleranceDollars: target.value })}
          />
          <TextField
            label="Tolerance (ppm)"
            hint="Of the billed amount."
            type="number"
            min={0}
            max={10_000}
            step={1}
            value={form.tolerancePpm}
            onChange={({ target }) => onChange({ tolerancePpm: target.value })}
          />
        </div>
      </div>
    </details>
  );
}

function UpstreamSelect({
  label,
  hint,
  none,
  value,
  onChange,
}: {
  label: string;
  hint?: ReactNode;
  none: string;
  value: string;
  onChange: (name: string) => void;
}) {
  const { data: names = [] } = useQuery(upstreamNamesQuery);
  return (
    <SelectField label={label} hint={hint} value={value} onChange={({ target }) => onChange(target.value)}>
      <option value="">{none}</option>
      {names.map((name) => (
        <option key={name} value={name}>
          {name}
        </option>
      ))}
    </SelectField>
  );
}
