// What all applications have in common: the route, and its data, which is requested and shown a second later.
export const base = '/' + location.pathname.split('/')[1];
const id = (location.pathname.match(/\/item\/(\d+)/) || [])[1];

export const load = async () => {
  const response = await fetch(`${base}/api/${id || 'list'}.json`);
  const data = await response.json();
  await new Promise((done) => setTimeout(done, 1000));
  document.title = data.name;
  return data;
};

export const link = (item) => `${base}/item/${item.id}`;
