import { h, render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { link, load } from './data.js';

const App = () => {
  const [data, setData] = useState(null);
  useEffect(() => void load().then(setData), []);
  if (!data) return h('p', null, 'Loading');
  return h('main', null, h('h1', null, data.name), data.items.map((item) => h('a', { href: link(item) }, item.name)));
};
render(h(App), document.getElementById('app'));
