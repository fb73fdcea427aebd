import type { Page } from 'playwright-core';
import { PAGES } from '../../../web/pages.ts';

/** Every page of the dashboard and its main dialogs, for screenshots and for checks of all pages. */
export type Scene = {
  name: string;
  path: string;
  /** The signed-in role; `visitor` is not signed in. */
  who: 'visitor' | 'administrator' | 'member' | 'auditor';
  /** Actions before the screenshot. */
  act?: (page: Page) => Promise<void>;
};

const OUTSIDE: readonly Scene[] = [
  { name: 'sign-in', path: '/sign-in', who: 'visitor' },
  { name: 'register', path: '/register', who: 'visitor' },
  { name: 'setup', path: '/setup#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', who: 'visitor' },
  { name: 'join', path: '/join#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', who: 'visitor' },
  { name: 'forgot', path: '/forgot', who: 'visitor' },
  { name: 'reset', path: '/reset#aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', who: 'visitor' },
  { name: 'missing', path: '/no-such-page', who: 'administrator' },
];

const INSIDE: readonly Scene[] = PAGES.map(({ path }): Scene => ({
  name: path === '/' ? 'overview' : path.slice(1).replaceAll('/', '-'),
  path,
  who: 'administrator',
}));

async function openRestrictions(page: Page): Promise<void> {
  await page.keyboard.press('n');
  await page.getByText('Restrict this key').click();
  await page.getByLabel('Selected').first().check();
  await page.getByRole('button', { name: 'Add quota' }).click();
}

async function makeKey(page: Page): Promise<void> {
  await page.keyboard.press('n');
  await page.getByLabel('Name', { exact: true }).fill('made for a picture');
  await page.keyboard.press('Enter');
  await page.getByText('won’t be able to see it again').waitFor();
}

async function searchDocs(page: Page): Promise<void> {
  await page.keyboard.press('/');
  await page.keyboard.type('hard limit');
  await page.locator('#results a').first().waitFor();
}

async function openOperation(page: Page): Promise<void> {
  await page.getByText('/api/v1/keys/{key}/rotate').first().click();
}

/** Presses the first button with the name and waits for its dialog. */
const opening =
  (name: string) =>
  async (page: Page): Promise<void> => {
    await page.getByRole('button', { name }).first().click();
    await page.getByRole('dialog').waitFor();
  };

/** The form of a new identity provider, with all settings. */
async function addProvider(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Add provider' }).click();
  await page.getByLabel('Name on the button').fill('Globex');
  await page.getByText('Advanced').click();
}

async function pointAtLastBar(page: Page): Promise<void> {
  const box = await page.getByRole('img').locator('svg').first().boundingBox();
  if (box) await page.mouse.move(box.x + box.width - 5, box.y + box.height / 2);
}

async function showEmails(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Edit email settings' }).scrollIntoViewIfNeeded();
}

/** The audit pages other than the event list. */
const AUDIT: readonly Scene[] = ['proof', 'state', 'comparison', 'receipt'].map((name) => ({
  name: `audit-${name}`,
  path: `/audit/${name}`,
  who: 'auditor',
}));

/** The end of the request details, with the receipt. */
async function openRequestEnd(page: Page): Promise<void> {
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Download receipt' }).scrollIntoViewIfNeeded();
}

/** The result of a check of tighter terms. */
async function checkPlan(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Edit plan team' }).click();
  await page.getByLabel('Requests per minute').first().fill('12');
  await checkMonth(page);
}

async function checkPrice(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Set price' }).first().click();
  await page.getByRole('dialog').getByLabel('Model').fill('gpt-5.2-mini');
  await page.getByRole('dialog').getByLabel('Input').fill('1.75');
  await checkMonth(page);
}

async function checkMonth(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Check', exact: true }).click();
  await page.getByRole('button', { name: 'Check again' }).waitFor();
}

async function verify(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Verify log' }).click();
  await page.getByText('Started').waitFor();
}

async function compareOne(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Run check of usage' }).click();
  await page.getByText('differences in').waitFor();
}

async function showMoreFilters(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'More (1)' }).click();
  await page.getByLabel('End user').waitFor();
}

async function adjustAccount(page: Page): Promise<void> {
  await opening('Globex Robotics')(page);
  await page.getByRole('button', { name: 'Adjust usage' }).click();
  await page.getByLabel('Units', { exact: true }).fill('1,200');
}

async function topUpAccount(page: Page): Promise<void> {
  await opening('Globex Robotics')(page);
  await page.getByRole('button', { name: 'Top up' }).click();
  await page.getByLabel('Amount (US dollars)').fill('250');
  await page.getByLabel('Reference').fill('Invoice 2026-117');
}

async function changeParent(page: Page): Promise<void> {
  await opening('Globex Robotics')(page);
  await page.getByRole('button', { name: 'Change parent account' }).click();
  await page.getByLabel('Parent account', { exact: true }).waitFor();
}

async function eraseEndUser(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.getByRole('row').filter({ hasText: 'ada@example.com' }).first().click();
  await page.getByRole('button', { name: 'Erase end user' }).click();
  await page.getByLabel('Type the end user to confirm').fill('ada@example.com');
}

async function showAttribution(page: Page): Promise<void> {
  await opening('Globex Robotics')(page);
  await page.getByRole('button', { name: 'Attribution' }).click();
  await page.getByLabel('Value or pseudonym').fill('grace.hopper@example.com');
}

async function destroyKey(page: Page): Promise<void> {
  await opening('Globex Robotics')(page);
  await page.getByRole('button', { name: 'Attribution' }).click();
  await page.getByRole('button', { name: 'Destroy key' }).click();
  await page.getByLabel('Type the account').waitFor();
}

async function fixAttribution(page: Page): Promise<void> {
  await page.keyboard.press('n');
  await page.getByText('Restrict this key').click();
  const attribution = page.getByRole('group', { name: 'Attribution', exact: true });
  await attribution.getByLabel('Required').first().check();
  await attribution.getByLabel('Fixed').last().check();
  await attribution.getByLabel('Fixed tags').fill('nightly');
  await attribution.scrollIntoViewIfNeeded();
}

async function adjustRequest(page: Page): Promise<void> {
  await page.keyboard.press('j');
  await page.keyboard.press('Enter');
  await page.getByRole('button', { name: 'Correct request' }).click();
  await page.getByLabel('Reference').waitFor();
}

async function setSellPrice(page: Page): Promise<void> {
  await opening('Set price of gpt-5.2-mini')(page);
  await page.getByLabel('Price', { exact: true }).selectOption('trial');
  await page.getByText('Sell price', { exact: true }).waitFor();
}

async function showUpstream(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Upstream openai' }).click();
  await page.getByRole('button', { name: 'Test connection' }).click();
  await page.getByText('Connected.').first().waitFor();
}

async function addKafka(page: Page): Promise<void> {
  await opening('Add sink')(page);
  await page.getByLabel('Name', { exact: true }).fill('warehouse');
  await page.getByLabel('Kafka').check();
  await page.getByLabel('Authentication (SASL)').selectOption('scram-sha-512');
}

async function addLago(page: Page): Promise<void> {
  await opening('Add sink')(page);
  await page.getByLabel('Name', { exact: true }).fill('lago');
  await page.getByLabel('Lago', { exact: true }).check();
  await page.getByLabel('Subscriptions (optional)').fill('Globex Robotics = sub_4711\nUmbrella = sub_9');
}

async function compareBill(page: Page): Promise<void> {
  await opening('Compare bill')(page);
  await page.getByText('Names, currencies and tolerance').click();
}

async function applyDifferences(page: Page): Promise<void> {
  await page.getByLabel('Select all that can be applied').check();
  await page.getByRole('button', { name: 'Record as adjustments' }).click();
  await page.getByLabel('Reason').waitFor();
}

async function removeUpstream(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Actions for ollama' }).click();
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.getByRole('dialog').waitFor();
}

async function showCodex(page: Page): Promise<void> {
  await page.getByRole('tab', { name: 'Coding agents' }).click();
  await page.getByRole('tab', { name: 'Codex' }).click();
  await page.getByText('[model_providers.daybook]').scrollIntoViewIfNeeded();
}

/** The documentation, which is public. */
const DOCUMENTATION: readonly Scene[] = [
  { name: 'docs-limits', path: '/docs/limits.html', who: 'visitor' },
  { name: 'docs-api-reference', path: '/docs/api-reference.html', who: 'visitor' },
  { name: 'docs-search', path: '/docs', who: 'visitor', act: searchDocs },
  { name: 'docs-operation', path: '/docs/api-reference.html', who: 'visitor', act: openOperation },
];

const DIALOGS: readonly Scene[] = [
  { name: 'first-call-agents', path: '/first-call', who: 'member', act: showCodex },
  { name: 'overview-of-a-member', path: '/', who: 'member' },
  { name: 'keys-of-an-auditor', path: '/keys', who: 'auditor' },
  { name: 'requests-receipt', path: '/requests?outcome=completed', who: 'member', act: openRequestEnd },
  {
    name: 'requests-attempts',
    path: '/requests?model=local-first',
    who: 'administrator',
    act: openRequestEnd,
  },
  { name: 'audit-proof-verified', path: '/audit/proof', who: 'administrator', act: verify },
  { name: 'audit-state-of-a-plan', path: '/audit/state?plan=team', who: 'auditor' },
  { name: 'audit-comparison-done', path: '/audit/comparison', who: 'auditor', act: compareOne },
  { name: 'keys-create', path: '/keys', who: 'administrator', act: openRestrictions },
  { name: 'keys-secret', path: '/keys', who: 'administrator', act: makeKey },
  { name: 'sign-in-refused', path: '/sign-in?error=no_matching_rule', who: 'visitor' },
  { name: 'members-provider', path: '/admin/members', who: 'administrator', act: addProvider },
  {
    name: 'members-invite',
    path: '/admin/members',
    who: 'administrator',
    act: (page) => page.keyboard.press('n'),
  },
  {
    name: 'admin-accounts-one',
    path: '/admin/accounts',
    who: 'administrator',
    act: opening('Globex Robotics'),
  },
  { name: 'admin-accounts-top-up', path: '/admin/accounts', who: 'administrator', act: topUpAccount },
  { name: 'admin-accounts-parent', path: '/admin/accounts', who: 'administrator', act: changeParent },
  { name: 'admin-accounts-adjust', path: '/admin/accounts', who: 'administrator', act: adjustAccount },
  { name: 'requests-filters', path: '/requests?status=2xx', who: 'administrator', act: showMoreFilters },
  { name: 'requests-of-an-auditor', path: '/requests', who: 'auditor' },
  { name: 'requests-erase', path: '/requests?outcome=completed', who: 'administrator', act: eraseEndUser },
  { name: 'usage-of-an-hour', path: '/usage', who: 'administrator', act: pointAtLastBar },
  { name: 'usage-by-end-user', path: '/usage?group=end_user', who: 'administrator' },
  { name: 'admin-accounts-attribution', path: '/admin/accounts', who: 'administrator', act: showAttribution },
  { name: 'admin-accounts-destroy', path: '/admin/accounts', who: 'administrator', act: destroyKey },
  { name: 'keys-attribution', path: '/keys', who: 'administrator', act: fixAttribution },
  { name: 'statements-of-a-member', path: '/statements?group=day', who: 'member' },
  { name: 'statements-of-an-auditor', path: '/statements?period=custom', who: 'auditor' },
  { name: 'statements-issue', path: '/statements', who: 'administrator', act: opening('Issue invoice') },
  { name: 'statements-issuer', path: '/statements', who: 'administrator', act: opening('Edit issuer') },
  { name: 'statements-credit', path: '/statements', who: 'administrator', act: opening('Credit INV-') },
  { name: 'statements-emails', path: '/statements', who: 'administrator', act: showEmails },
  {
    ...{ name: 'statements-email-settings', path: '/statements', who: 'administrator' },
    act: opening('Edit email settings'),
  },
  { name: 'statements-send', path: '/statements', who: 'administrator', act: opening('Send statement') },
  { name: 'usage-by-route', path: '/usage?group=route', who: 'administrator' },
  { name: 'requests-adjust', path: '/requests?outcome=completed', who: 'administrator', act: adjustRequest },
  {
    name: 'management-keys-create',
    path: '/management-keys',
    who: 'administrator',
    act: opening('Create management key'),
  },
  { name: 'management-keys-of-an-auditor', path: '/management-keys', who: 'auditor' },
  { name: 'limits-adjust', path: '/limits', who: 'administrator', act: opening('Adjust usage') },
  {
    name: 'admin-plans-change',
    path: '/admin/plans',
    who: 'administrator',
    act: opening('Edit plan team'),
  },
  { name: 'admin-plans-check', path: '/admin/plans', who: 'administrator', act: checkPlan },
  { name: 'admin-models-check', path: '/admin/models', who: 'administrator', act: checkPrice },
  {
    name: 'admin-upstreams-add',
    path: '/admin/upstreams',
    who: 'administrator',
    act: opening('Add upstream'),
  },
  { name: 'admin-upstreams-one', path: '/admin/upstreams', who: 'administrator', act: showUpstream },
  {
    name: 'admin-upstreams-define',
    path: '/admin/upstreams',
    who: 'administrator',
    act: opening('Edit model fast'),
  },
  { name: 'admin-upstreams-remove', path: '/admin/upstreams', who: 'administrator', act: removeUpstream },
  { name: 'admin-models-price', path: '/admin/models', who: 'administrator', act: opening('Set price') },
  { name: 'admin-models-sell-price', path: '/admin/models', who: 'administrator', act: setSellPrice },
  { name: 'admin-models-import', path: '/admin/models', who: 'administrator', act: opening('Import prices') },
  // Without an id: the newest.
  { name: 'admin-reconciliation-report', path: '/admin/reconciliation/report', who: 'administrator' },
  { name: 'admin-reconciliation-of-an-auditor', path: '/admin/reconciliation/report', who: 'auditor' },
  {
    name: 'admin-reconciliation-compare',
    path: '/admin/reconciliation',
    who: 'administrator',
    act: compareBill,
  },
  {
    name: 'admin-reconciliation-apply',
    path: '/admin/reconciliation/report',
    who: 'administrator',
    act: applyDifferences,
  },
  { name: 'admin-sinks-one', path: '/admin/sinks', who: 'administrator', act: opening('Sink billing') },
  { name: 'admin-sinks-add', path: '/admin/sinks', who: 'administrator', act: opening('Add sink') },
  { name: 'admin-sinks-kafka', path: '/admin/sinks', who: 'administrator', act: addKafka },
  { name: 'admin-sinks-lago', path: '/admin/sinks', who: 'administrator', act: addLago },
  { name: 'admin-sinks-of-an-auditor', path: '/admin/sinks', who: 'auditor' },
  {
    name: 'admin-alerts-destination',
    path: '/admin/alerts',
    who: 'administrator',
    act: opening('Add destination'),
  },
  {
    name: 'palette',
    path: '/settings',
    who: 'administrator',
    act: (page) => page.keyboard.press('Control+k'),
  },
  { name: 'help', path: '/settings', who: 'administrator', act: (page) => page.keyboard.press('?') },
];

export const SCENES: readonly Scene[] = [...OUTSIDE, ...INSIDE, ...AUDIT, ...DOCUMENTATION, ...DIALOGS];
