/** Statements of a superuser that change stored events in their batches. */

/**
 * Replaces the lines of events.
 * @param where a condition on `position`, `line` and the columns of an event, in SQL.
 * @param line in SQL: what stands in place of such a line, nothing where it is null.
 */
export const changeLines = (where: string, line: string): string => `
  update daybook.log as log set events = (
    select coalesce(string_agg(case when ${where} then ${line} else line end, e'\\n' order by number), '')
      from string_to_table(log.events, e'\\n') with ordinality as e(line, number),
        lateral (select last_position - event_count + number as position,
          line::daybook.event_fields as fields) as placed,
        lateral (select (fields).*) as columns)`;

/** Replaces fields of events. @param fields their new values by name, in SQL. */
export const changeEvents = (where: string, fields: Readonly<Record<string, string>>): string =>
  changeLines(
    where,
    `jsonb_populate_record(fields, jsonb_build_object(${Object.entries(fields)
      .map(([name, value]) => `'${name}', ${value}`)
      .join(', ')}))::text`,
  );
