import { createSignal } from 'solid-js';
import html from 'solid-js/html';
import { render } from 'solid-js/web';
import { link, load } from './data.js';

const App = () => {
  const [data, setData] = createSignal(null);
  load().then(setData);
  return html`<main><h1>${() => data()?.name ?? 'Loading'}</h1>
    ${() => (data()?.items ?? []).map((item) => html`<a href=${link(item)}>${item.name}</a>`)}</main>`;
};
render(App, document.getElementById('app'));
