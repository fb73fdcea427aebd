import { useId } from 'react';
import { showCount } from '../../lib/format/show.ts';
import { buttonClass, IconButton } from '../../ui/button.tsx';
import { Select } from '../../ui/form/field.tsx';
import { type BillFormat, type ChosenFile, FORMATS, guessFormat } from './bill-form.ts';

const KIB = 1024;

/** The files of one bill, each with its format. */
export function FilesField({
  files,
  onChange,
}: {
  files: readonly ChosenFile[];
  onChange: (files: readonly ChosenFile[]) => void;
}) {
  const id = useId();
  return (
    <div className="flex flex-col gap-2">
      <p className="font-medium">Bill</p>
      <p className="text-xs text-muted">
        All files of one bill, such as costs and usage. JSON and CSV as the provider exports them.
      </p>
      {files.length > 0 && (
        <ul className="flex flex-col divide-y divide-line rounded-lg border border-line">
          {files.map((each, index) => (
            <li key={index} className="flex flex-wrap items-center gap-2 px-3 py-2">
              <span className="min-w-0 flex-1 break-all">
                {each.name}{' '}
                <span className="text-xs whitespace-nowrap text-muted">
                  {showCount(Math.ceil(each.size / KIB))} KiB
                </span>
              </span>
              <Select
                aria-label={`Format of ${each.name}`}
                value={each.format}
                onChange={({ target }) =>
                  onChange(files.with(index, { ...each, format: target.value as BillFormat }))
                }
              >
                {FORMATS.map(([format, name]) => (
                  <option key={format} value={format}>
                    {name}
                  </option>
                ))}
              </Select>
              <IconButton
                icon="close"
                label={`Remove ${each.name}`}
                onClick={() => onChange(files.toSpliced(index, 1))}
              />
            </li>
          ))}
        </ul>
      )}
      <div>
        <label htmlFor={id} className={buttonClass('plain', 'cursor-pointer focus-within:outline-2')}>
          {files.length === 0 ? 'Choose files' : 'Add files'}
          <input
            id={id}
            type="file"
            multiple
            accept=".json,.csv,.ndjson,.jsonl,.txt"
            className="sr-only"
            onChange={({ target }) => {
              const added = [...(target.files ?? [])].map((file) => ({
                name: file.name,
                size: file.size,
                format: guessFormat(file.name),
                file,
              }));
              onChange([...files, ...added]);
              target.value = '';
            }}
          />
        </label>
      </div>
    </div>
  );
}
