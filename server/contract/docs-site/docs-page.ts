/** The frame of the pages of the documentation and of the API's reference. Pure. */

export type DocsPage = {
  title: string;
  /** HTML of the list of pages or operations, with its label. */
  navigation: string;
  navigationLabel: string;
  /** HTML of the page. */
  main: string;
  /** HTML beside the page. */
  aside: string;
};

export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;');

export const docsPage = ({ title, navigation, navigationLabel, main, aside }: DocsPage): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${escapeHtml(title)} · Daybook documentation</title>
<link rel="icon" href="icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="site.css">
<script src="theme.js"></script>
<script src="site.js" defer></script>
</head>
<body>
<a class="skip" href="#main">Skip to content</a>
<header>
<a class="brand" href="index.html">Daybook <span>documentation</span></a>
<div class="search">
<input id="search" type="search" placeholder="Search" aria-label="Search" autocomplete="off">
<ul id="results" hidden></ul>
</div>
<button id="theme" type="button" aria-label="Switch between light and dark"></button>
<a class="dashboard" href="../">Dashboard</a>
<button id="menu" type="button" aria-expanded="false" aria-controls="navigation">Menu</button>
</header>
<div class="columns">
<nav id="navigation" aria-label="${escapeHtml(navigationLabel)}">${navigation}</nav>
<main id="main">${main}</main>
${aside}
</div>
</body>
</html>
`;
