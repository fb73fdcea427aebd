import type { ClientBase } from 'pg';
import { sumHistory } from '#db/projections/page/history-sums.ts';
import { type EventPage, timestampOf } from '#db/projections/page/page.ts';
import type { Projection } from '#db/projections/projection.ts';

const ADD = `insert into usage_history as t (subject, hour, account, tokens, cost_nanousd)
  select * from unnest($1::text[], $2::timestamptz[], $3::text[], $4::bigint[], $5::bigint[])
  on conflict (subject, hour) do update set tokens = t.tokens + excluded.tokens,
    cost_nanousd = t.cost_nanousd + excluded.cost_nanousd`;

/** Usage by hour of each account, key, end user and model, for forecasts and for alerts of unusual usage. */
export const history: Projection = {
  name: 'history',
  tables: ['usage_history'],
  kept: [{ table: 'usage_history', time: 'hour' }],
  async apply(client: ClientBase, { events }: EventPage): Promise<void> {
    const rows = sumHistory(events);
    if (rows.length === 0) return;
    await client.query({
      name: 'project_history',
      text: ADD,
      values: [
        rows.map(({ subject }) => subject),
        rows.map(({ us }) => timestampOf(us)),
        rows.map(({ account }) => account),
        rows.map(({ tokens }) => tokens),
        rows.map(({ cost }) => cost),
      ],
    });
  },
};
