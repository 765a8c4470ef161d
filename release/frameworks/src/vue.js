import { createApp, ref } from 'vue/dist/vue.esm-bundler.js';
import { link, load } from './data.js';

createApp({
  setup() {
    const data = ref(null);
    load().then((loaded) => (data.value = loaded));
    return { data, link };
  },
  template: `<main v-if="data"><h1>{{ data.name }}</h1>
    <a v-for="item in data.items" :key="item.id" :href="link(item)">{{ item.name }}</a></main><p v-else>Loading</p>`,
}).mount('#app');
