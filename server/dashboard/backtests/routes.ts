import { BacktestStep, StartBacktest } from '#server/contract/backtest.ts';
import type { Dashboard } from '#server/dashboard/dashboard.ts';
import { ADMINISTRATORS, type ApiRoute, route } from '#server/dashboard/gate.ts';
import { ApiError } from '#server/errors/api-error.ts';
import { replyWithLines } from '#server/read/export-reply.ts';

const LINES = ['content-type', 'application/x-ndjson; charset=utf-8'] as const;

/** Back-tests of changes before they are saved: for those who can save them. */
export function backtestRoutes({ backtests }: Dashboard): ApiRoute[] {
  return [
    route(
      'post',
      '/api/v1/backtests',
      'plans:read',
      ADMINISTRATORS,
      { body: StartBacktest, reply: BacktestStep, type: 'application/x-ndjson' },
      async ({ body, response }, who) => {
        const left = new AbortController();
        response.once('close', () => left.abort());
        const steps = await backtests.begin(body, who, left.signal);
        return steps instanceof ApiError ? steps : replyWithLines(response, LINES, written(steps));
      },
    ),
  ];
}

async function* written(steps: AsyncGenerator<BacktestStep>): AsyncGenerator<string> {
  for await (const step of steps) yield `${JSON.stringify(step)}\n`;
}
