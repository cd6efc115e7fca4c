// Every word of the page, in English and in Chinese.

const WORDS = {
  "skip": {"en": "Skip to the panel", "zh": "跳到面板"},
  "playground": {"en": "playground", "zh": "试验台"},
  "abilities": {"en": "What the models can do", "zh": "模型会做什么"},
  "language.other": {"en": "中文", "zh": "English"},
  "theme": {"en": "Dark theme", "zh": "深色主题"},
  "comma": {"en": ", ", "zh": "、"},
  "table": {"en": "Table", "zh": "表格"},
  "show.all": {"en": "Show all {count}", "zh": "显示全部 {count} 项"},
  "ask": {"en": "Ask the model", "zh": "询问模型"},
  "ask.hint": {"en": "or Ctrl + Enter", "zh": "或按 Ctrl + Enter"},
  "again": {"en": "Try again", "zh": "再试一次"},
  "wait": {"en": "Waiting for the answer", "zh": "正在等待答案"},
  "model": {"en": "Model", "zh": "模型"},
  "optional": {"en": "(optional)", "zh": "（可不填）"},
  "insert": {"en": "Insert {words}", "zh": "插入 {words}"},
  "answer": {"en": "Answer", "zh": "答案"},
  "request": {"en": "The request behind it", "zh": "背后的请求"},
  "copy": {"en": "Copy", "zh": "复制"},
  "copied": {"en": "Copied", "zh": "已复制"},
  "selected": {"en": "Selected, press Ctrl + C", "zh": "已选中，请按 Ctrl + C"},
  "key": {"en": "API key", "zh": "API 密钥"},
  "key.use": {"en": "Use this key", "zh": "使用此密钥"},
  "models": {"en": "Models ({count})", "zh": "模型（{count}）"},
  "models.wait": {"en": "Asking the service what it can do …", "zh": "正在询问服务会做什么……"},
  "models.none": {"en": "The service has no model that this page can ask.", "zh": "服务中没有此页面可以询问的模型。"},
  "models.longest": {"en": "reads {longest} pieces", "zh": "一次读 {longest} 个词片"},
  "link.docs": {"en": "All routes", "zh": "全部接口"},
  "link.openapi.json": {"en": "OpenAPI", "zh": "OpenAPI"},
  "link.metrics": {"en": "Metrics", "zh": "指标"},
  "facts.tokens": {"en": "{count}\u00a0tokens", "zh": "{count}\u00a0个词元"},
  "facts.time": {"en": "{count}\u00a0ms", "zh": "{count}\u00a0毫秒"},
  "facts.cut": {"en": "The text is longer than what is read of it; the rest was left out.", "zh": "文本过长，只读了一部分，其余未读。"},

  "error.unreachable": {"en": "The service does not answer; see whether it still runs, then try again.", "zh": "服务没有回应；请确认它仍在运行，然后再试。"},
  "error.unreadable": {"en": "The service sent something that is no answer; see whether another program listens at this address.", "zh": "服务发来的内容不是答案；请确认此地址上不是别的程序。"},
  "error.status": {"en": "The service refused with status {status}.", "zh": "服务以状态码 {status} 拒绝了请求。"},
  "error.later": {"en": "Try again in {seconds} s.", "zh": "请在 {seconds} 秒后再试。"},
  "error.unauthorized": {"en": "This service asks for a key.", "zh": "此服务需要密钥。"},
  "error.overloaded": {"en": "The service has too much to do.", "zh": "服务过于繁忙。"},
  "error.too_large": {"en": "This is more than the service takes.", "zh": "内容超出了服务的限度。"},
  "error.too_late": {"en": "The answer took too long.", "zh": "等待答案的时间过长。"},
  "error.stopping": {"en": "The service is about to stop.", "zh": "服务即将停止。"},

  "fill.name": {"en": "Fill a mask", "zh": "完形填空"},
  "fill.about": {"en": "Hide a word behind [MASK] and see what the model would put there.", "zh": "用 [MASK] 盖住一个词，看看模型会填什么。"},
  "fill.text": {"en": "Text with masks", "zh": "带有掩码的文本"},
  "fill.text.example": {"en": "The capital of France is [MASK].", "zh": "法国的首都是[MASK][MASK]。"},
  "fill.mask": {"en": "Mask {number}", "zh": "第 {number} 个掩码"},

  "classify.name": {"en": "Classify", "zh": "文本分类"},
  "classify.about": {"en": "Name the label of a text, with the probability of each.", "zh": "说出文本的标签，以及每个标签的概率。"},
  "classify.text": {"en": "Text", "zh": "文本"},
  "classify.text.example": {"en": "A warm, funny film that never loses its way.", "zh": "房间很干净，服务也热情，下次还会再来。"},
  "classify.none": {"en": "No label", "zh": "没有标签"},

  "aspect.name": {"en": "Judge an aspect", "zh": "方面情感"},
  "aspect.about": {"en": "What does the text think of one thing that it mentions?", "zh": "文本对它提到的某一方面怎么看？"},
  "aspect.text": {"en": "Text", "zh": "文本"},
  "aspect.text.example": {"en": "The food was great, but we waited an hour for it.", "zh": "菜很好吃，但我们等了一个小时。"},
  "aspect.aspect": {"en": "Aspect", "zh": "方面"},
  "aspect.aspect.example": {"en": "food", "zh": "菜"},

  "tag.name": {"en": "Find entities", "zh": "实体识别"},
  "tag.about": {"en": "Mark names and other spans in a text, with the characters where they begin and end.", "zh": "标出文本中的名称和其他片段，并给出起止字符的位置。"},
  "tag.text": {"en": "Text", "zh": "文本"},
  "tag.text.example": {"en": "Marie Curie was born in Warsaw and taught at the Sorbonne in Paris.", "zh": "屠呦呦出生于浙江宁波，毕业于北京大学医学院。"},
  "tag.found": {"en": "{count} found", "zh": "找到 {count} 处"},
  "tag.none": {"en": "Nothing was found.", "zh": "没有找到任何片段。"},
  "tag.label": {"en": "Label", "zh": "标签"},
  "tag.characters": {"en": "Characters", "zh": "字符"},
  "tag.probability": {"en": "Chance", "zh": "概率"},

  "answer.name": {"en": "Ask a passage", "zh": "阅读问答"},
  "answer.about": {"en": "Ask a question; the answer is marked where it stands in the passage.", "zh": "提出问题，答案会在段落中标出。"},
  "answer.question": {"en": "Question", "zh": "问题"},
  "answer.question.example": {"en": "Who designed the tower?", "zh": "长城主要由哪个朝代修建？"},
  "answer.passage": {"en": "Passage", "zh": "段落"},
  "answer.passage.example": {"en": "The tower was built for the World Fair of 1889. It was designed by engineers of the company of Gustave Eiffel, after whom it is named, and was the tallest building of the world for 41 years.", "zh": "长城是中国古代的军事防御工程。现存的长城遗迹主要为始建于14世纪的明长城，由明朝修建，全长约八千八百公里。"},
  "answer.none": {"en": "The passage does not say.", "zh": "段落中没有答案。"},
  "answer.candidates": {"en": "Likeliest places", "zh": "最可能的位置"},

  "compare.name": {"en": "Compare two texts", "zh": "比较两段文本"},
  "compare.about": {"en": "How close are two texts in meaning?", "zh": "两段文本的意思有多接近？"},
  "compare.first": {"en": "First text", "zh": "第一段"},
  "compare.first.example": {"en": "How do I reset my password?", "zh": "怎么重置密码？"},
  "compare.second": {"en": "Second text", "zh": "第二段"},
  "compare.second.example": {"en": "I forgot my login, how can I get a new one?", "zh": "我忘了登录信息，怎样找回？"},
  "compare.cosine": {"en": "cosine similarity", "zh": "余弦相似度"},

  "search.name": {"en": "Search a list", "zh": "在列表中搜索"},
  "search.about": {"en": "Paste texts, one on each line, and rank them by how well they fit a query.", "zh": "粘贴文本，每行一条，按与查询的相关程度排序。"},
  "search.query": {"en": "Query", "zh": "查询"},
  "search.query.example": {"en": "how plants make food", "zh": "植物怎样制造养分"},
  "search.texts": {"en": "Texts, one on each line", "zh": "文本，每行一条"},
  "search.texts.example": {"en": "Photosynthesis turns light, water and carbon dioxide into sugar.\nThe stock market fell for the third day.\nRoots take up water and minerals from the soil.\nA good bread needs time more than anything.\nChlorophyll is the green pigment that catches sunlight.", "zh": "光合作用把光、水和二氧化碳变成糖。\n股市连续第三天下跌。\n根从土壤中吸收水分和矿物质。\n好面包最需要的是时间。\n叶绿素是捕捉阳光的绿色色素。"},

  "zero.name": {"en": "Labels of your own", "zh": "零样本分类"},
  "zero.about": {"en": "Choose among labels that the model never learned.", "zh": "在模型从未学过的标签中选择。"},
  "zero.text": {"en": "Text", "zh": "文本"},
  "zero.text.example": {"en": "The new telescope found water in the air of a distant planet.", "zh": "新望远镜在一颗遥远行星的大气中发现了水。"},
  "zero.labels": {"en": "Labels, one on each line", "zh": "标签，每行一个"},
  "zero.labels.example": {"en": "science\nsports\npolitics\ncooking", "zh": "科学\n体育\n政治\n烹饪"},
  "zero.template": {"en": "Template with {label}", "zh": "含 {label} 的模板"},
  "zero.template.example": {"en": "", "zh": ""},

  "choose.name": {"en": "Choose an answer", "zh": "选择题"},
  "choose.about": {"en": "Give a question and some answers; the model names the likeliest.", "zh": "给出问题和若干选项，模型选出最可能的一项。"},
  "choose.question": {"en": "Question", "zh": "问题"},
  "choose.question.example": {"en": "What do you use to cut bread?", "zh": "用什么切面包？"},
  "choose.choices": {"en": "Answers, one on each line", "zh": "选项，每行一个"},
  "choose.choices.example": {"en": "a knife\na pillow\na cloud", "zh": "刀\n枕头\n云"},
  "choose.passage": {"en": "Passage", "zh": "段落"},
  "choose.passage.example": {"en": "", "zh": ""},

  "attention.name": {"en": "Look at attention", "zh": "查看注意力"},
  "attention.about": {"en": "Which piece of a text looks at which, in every layer and attention head.", "zh": "文本中哪个词片在看哪个词片，逐层逐头。"},
  "attention.text": {"en": "Text", "zh": "文本"},
  "attention.text.example": {"en": "The animal did not cross the street because it was too tired.", "zh": "小动物没有过马路，因为它太累了。"},
  "attention.layer": {"en": "Layer", "zh": "层"},
  "attention.head": {"en": "Attention head", "zh": "注意力头"},
  "attention.mean": {"en": "mean of all", "zh": "全部平均"},
  "attention.map": {"en": "Map of all layers and attention heads", "zh": "所有层和注意力头的总览"},
  "attention.map.about": {"en": "Layers from top to bottom, attention heads from left to right; click one.", "zh": "自上而下为层，自左而右为注意力头；点击选择。"},
  "attention.lines.about": {"en": "The left side looks, the right side is seen; the stronger a line, the more.", "zh": "左边在看，右边被看；线越浓，看得越多。"},
  "attention.from": {"en": "Pieces that look", "zh": "在看的词片"},
  "attention.to": {"en": "Pieces that are seen", "zh": "被看的词片"},
  "attention.choose": {"en": "Choose a piece on the left to see only its own lines.", "zh": "选择左边的一个词片，只看它的连线。"},
  "attention.words": {"en": "Words only, without special pieces", "zh": "只看词，不看特殊词片"},
  "attention.sentence": {"en": "{piece} looks at {list}", "zh": "{piece} 在看 {list}"},
  "attention.found": {"en": "{layers} layers of {heads} attention heads", "zh": "{layers} 层，每层 {heads} 个注意力头"},

  "pieces.name": {"en": "Cut into pieces", "zh": "切分词片"},
  "pieces.about": {"en": "How the model cuts a text into the pieces that it reads, and their numbers in its vocabulary.", "zh": "模型怎样把文本切成它所读的词片，以及词片在词表中的编号。"},
  "pieces.text": {"en": "Text", "zh": "文本"},
  "pieces.text.example": {"en": "Tokenization splits unbelievably long words.", "zh": "分词器会把很长的英文单词 unbelievably 切开。"},
  "pieces.count": {"en": "{count} pieces", "zh": "{count} 个词片"},
  "pieces.of": {"en": "of {count} characters", "zh": "来自 {count} 个字符"},
  "pieces.longest": {"en": "; {longest} are read at once", "zh": "；一次最多读 {longest} 个"}
};

export const LANGUAGES = ["en", "zh"];

let spoken = "en";

export const language = () => spoken;

export function setLanguage(wanted) {
  spoken = String(wanted).startsWith("zh") ? "zh" : "en";
}

export const has = (word) => word in WORDS;

// A word in the language of the page, with values in its places.
export function say(word, values = {}, wanted = spoken) {
  return WORDS[word][wanted].replace(/\{(\w+)\}/g, (place, name) => values[name] ?? place);
}
