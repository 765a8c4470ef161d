import React, { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { link, load } from './data.js';

const App = () => {
  const [data, setData] = useState(null);
  useEffect(() => void load().then(setData), []);
  if (!data) return <p>Loading</p>;
  return <main><h1>{data.name}</h1>{data.items.map((item) => <a key={item.id} href={link(item)}>{item.name}</a>)}</main>;
};
createRoot(document.getElementById('app')).render(<App />);
