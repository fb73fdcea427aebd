import { expect, test } from 'vitest';
import { emailOf } from '../../../worker/messages/email.ts';
import { messageOf, type SentAlert } from '../../../worker/messages/message.ts';
import { slackBody } from '../../../worker/messages/slack.ts';
import { teamsBody } from '../../../worker/messages/teams.ts';
import { webhookBody } from '../../../worker/messages/webhook.ts';

const ORIGIN = 'https://daybook.example.com';

const ANOMALY: SentAlert = {
  kind: 'usage_anomaly',
  state: 'raised',
  account: 'Account1',
  raised_at: '2026-03-02T14:20:05.000Z',
  details: {
    account_name: 'Acme',
    key: 'Key00001',
    key_name: 'laptop',
    meter: 'tokens',
    used: 1_250_000,
    usual: 90_000,
    hour_starts_at: '2026-03-02T14:00:00.000Z',
    hour_ends_at: '2026-03-02T15:00:00.000Z',
  },
};
const LINE =
  'Key “laptop” used 1,250,000 tokens in the hour from 2026-03-02 14:00 UTC; usually about 90,000.';
const URL_OF_CALLS =
  `${ORIGIN}/requests?account=Account1&key=Key00001` +
  '&from=2026-03-02T14%3A00%3A00.000Z&to=2026-03-02T15%3A00%3A00.000Z';

test('a message for Slack is Block Kit with a link to the calls', () => {
  expect(JSON.parse(slackBody(messageOf(ANOMALY, ORIGIN)))).toEqual({
    text: `Unusual usage: Acme. ${LINE}`,
    blocks: [
      { type: 'header', text: { type: 'plain_text', text: 'Unusual usage: Acme', emoji: false } },
      { type: 'section', text: { type: 'plain_text', text: LINE, emoji: false } },
      {
        type: 'context',
        elements: [
          { type: 'plain_text', text: 'Account: Acme', emoji: false },
          { type: 'plain_text', text: 'Time: 2026-03-02 14:20 UTC', emoji: false },
          { type: 'mrkdwn', text: `<${URL_OF_CALLS.replaceAll('&', '&amp;')}|View in Daybook>` },
        ],
      },
    ],
  });
});

test('a message for Microsoft Teams is an Adaptive Card with a link to the calls', () => {
  expect(JSON.parse(teamsBody(messageOf(ANOMALY, ORIGIN)))).toEqual({
    type: 'message',
    attachments: [
      {
        contentType: 'application/vnd.microsoft.card.adaptive',
        contentUrl: null,
        content: {
          $schema: 'http://adaptivecards.io/schemas/adaptive-card.json',
          type: 'AdaptiveCard',
          version: '1.4',
          body: [
            {
              type: 'TextBlock',
              text: 'Unusual usage: Acme',
              size: 'Medium',
              weight: 'Bolder',
              wrap: true,
            },
            { type: 'TextBlock', text: LINE, wrap: true },
            {
              type: 'FactSet',
              facts: [
                { title: 'Account', value: 'Acme' },
                { title: 'Time', value: '2026-03-02 14:20 UTC' },
              ],
            },
          ],
          actions: [{ type: 'Action.OpenUrl', title: 'View in Daybook', url: URL_OF_CALLS }],
        },
      },
    ],
  });
});

test('an email has the sentence, the facts and the link in plain text', () => {
  expect(emailOf(messageOf(ANOMALY, ORIGIN))).toEqual({
    subject: '[Daybook] Unusual usage: Acme',
    text: `${LINE}\n\nAccount: Acme\nTime: 2026-03-02 14:20 UTC\n\n${URL_OF_CALLS}\n`,
  });
});

test('a webhook has the fields of the alert, and a link where the address of the dashboard is known', () => {
  const data = { account: 'Account1', ...ANOMALY.details };
  const body = { type: 'usage_anomaly.raised', timestamp: ANOMALY.raised_at };
  expect(JSON.parse(webhookBody(ANOMALY, null))).toEqual({ ...body, data });
  expect(JSON.parse(webhookBody(ANOMALY, ORIGIN))).toEqual({ ...body, data: { ...data, url: URL_OF_CALLS } });
});

test('a projected budget has its range, its time of exhaustion and a link to the calls of its window', () => {
  const details = {
    account_name: 'Acme',
    end_user: 'Pseudonym0000001',
    per: 'end_user',
    ...{ meter: 'cost_nanousd', window: 'month', limit: 30_000_000_000, used: 20_000_000_000 },
    ...{ projected: 36_000_000_000, low: 33_000_000_000, high: 40_000_000_000 },
    exhausted_at: '2026-03-27T10:00:00.000Z',
    window_starts_at: '2026-03-01T00:00:00.000Z',
    window_ends_at: '2026-04-01T00:00:00.000Z',
  };
  const { title, line, url } = messageOf({ ...ANOMALY, kind: 'budget_forecast', details }, ORIGIN);
  expect(title).toBe('Projected over budget: Acme');
  expect(line).toBe(
    'End user Pseudonym0000001: Monthly cost: projected to reach $36.00 of $30.00 ' +
      '(80% range $33.00 to $40.00), exhausted about 2026-03-27 10:00 UTC.',
  );
  expect(url).toBe(
    `${ORIGIN}/requests?account=Account1&end_user=Pseudonym0000001` +
      '&from=2026-03-01T00%3A00%3A00.000Z&to=2026-04-01T00%3A00%3A00.000Z',
  );
});

test('a name can neither mention a channel, nor carry a link, nor add a header', () => {
  const name = '<!channel> [here](https://evil.example) <https://evil.example|x>\r\nBcc: a@b.example';
  const message = messageOf({ ...ANOMALY, details: { ...ANOMALY.details, account_name: name } }, null);
  const slack = JSON.parse(slackBody(message)) as { text: string; blocks: unknown[] };
  expect(slack.text).not.toMatch(/<[!h]/);
  expect(JSON.stringify(slack.blocks)).not.toContain('mrkdwn');
  expect(teamsBody(message)).not.toContain('[here](');
  expect(emailOf(message).subject).not.toMatch(/[\r\n]/);
});

test('a message has no link where the worker does not know the address of the dashboard', () => {
  for (const render of [slackBody, teamsBody, (each: ReturnType<typeof messageOf>) => emailOf(each).text])
    expect(render(messageOf(ANOMALY, null))).not.toContain('/requests');
});

test('a recovery says that it is resolved, and alerts about no account name none', () => {
  const alert: SentAlert = {
    kind: 'upstream_failing',
    state: 'recovered',
    account: null,
    raised_at: ANOMALY.raised_at,
    details: { upstream: 'openai', ended: 40, failed: 2 },
  };
  expect(messageOf(alert, ORIGIN)).toEqual({
    title: 'Resolved: Upstream failing',
    line: 'Upstream openai recovered.',
    facts: [['Time', '2026-03-02 14:20 UTC']],
    url: `${ORIGIN}/requests?upstream=openai`,
  });
});
